"""Beakers, sold in pairs."""

from pottery.prices import get_price


def beakers(pairs: int) -> int:
    """Return the price of so many pairs, in cents."""
    return 2 * pairs * get_price("beaker")
