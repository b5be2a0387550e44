"""Experiments written down: comparisons for the terminal, gates for continuous integration. Pure."""
