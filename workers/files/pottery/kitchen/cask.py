"""Vinegar casks, with a tap."""

from pottery.prices import get_price


def cask(taps: int = 1) -> int:
    """Return the price of a cask with so many taps, in cents."""
    return get_price("cask") + 350 * (taps - 1)
