"""Experiments as the page shows them: rows of tables, and what a plot is made of. Pure."""
