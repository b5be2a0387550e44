"""Runs written down: for people, as JSON, as lines, as pages."""
