"""Saucers, to go with old cups."""

from pottery.prices import get_price


def saucers(pieces: int) -> int:
    """Return the price of so many saucers, in cents."""
    return pieces * get_price("saucer")
