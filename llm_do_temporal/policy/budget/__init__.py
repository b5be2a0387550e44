"""Limits of runs and workers, and the book that says who may spend what."""
