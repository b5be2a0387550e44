"""Jugs, by what they hold."""

from pottery.prices import get_price


def jug(litres: int) -> int:
    """Return the price of a jug, in cents: one more litre makes it half as dear again."""
    price = get_price("jug")
    return price + (litres - 1) * price // 2
