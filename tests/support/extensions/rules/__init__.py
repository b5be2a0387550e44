"""Calls of past runs, as people decided about them."""
