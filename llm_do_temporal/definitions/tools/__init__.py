"""Tools that authors bring: Python functions and toolsets from elsewhere."""
