"""Baking dishes, by their length."""

from pottery.prices import get_price


def baking_dish(centimetres: int) -> int:
    """Return the price of a baking dish, in cents: what is longer than 30 cm costs 40 for each centimetre more."""
    return get_price("baking dish") + 40 * max(0, centimetres - 30)
