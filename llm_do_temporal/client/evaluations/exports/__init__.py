"""Experiments in the formats of other programs. Pure."""
