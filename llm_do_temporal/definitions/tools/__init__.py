"""Tools that authors bring: Python functions and external toolsets."""
