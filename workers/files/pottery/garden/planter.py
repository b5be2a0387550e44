"""Planters, with a tray below."""

from pottery.prices import get_price


def planter(tray: bool = True) -> int:
    """Return the price of a planter, in cents."""
    return get_price("planter") + (get_price("tray") if tray else 0)
