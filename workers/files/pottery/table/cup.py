"""Cups, with or without a saucer."""

from pottery.prices import get_price


def cups(pieces: int, saucers: bool = False) -> int:
    """Return the price of so many cups, in cents."""
    one = get_price("cup") + (get_price("saucer") if saucers else 0)
    return pieces * one
