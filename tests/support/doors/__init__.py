"""Doors for programs, as their clients see them."""
