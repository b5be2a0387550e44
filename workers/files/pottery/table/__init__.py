"""For the table."""
