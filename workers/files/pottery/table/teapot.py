"""Teapots, with a spare lid for those who want one."""

from pottery.prices import get_price


def teapot(spare_lid: bool = False) -> int:
    """Return the price of a teapot, in cents; a lid is a quarter of it."""
    price = get_price("teapot")
    return price + price // 4 if spare_lid else price
