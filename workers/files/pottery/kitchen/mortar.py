"""Mortars, with their pestle."""

from pottery.prices import get_price


def mortar(pestle: bool = True) -> int:
    """Return the price of a mortar, in cents; without its pestle it costs 700 less."""
    return get_price("mortar") - (0 if pestle else 700)
