"""Jars, sold by the row."""

from pottery.prices import get_price


def jars(pieces: int) -> int:
    """Return the price of so many jars, in cents: of five the cheapest is free."""
    return (pieces - pieces // 5) * get_price("jar")
