"""Traces of runs, made from their histories."""
