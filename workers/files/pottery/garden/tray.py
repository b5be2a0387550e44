"""Trays for below the pots."""

from pottery.prices import get_price


def trays(pieces: int) -> int:
    """Return the price of so many trays, in cents."""
    return pieces * get_price("tray")
