"""Mugs, on which a name can be painted."""

from pottery.prices import get_price


def mugs(names: list[str]) -> int:
    """Return the price of a mug for each name, in cents: a letter costs 20, and no name nothing more."""
    return sum(get_price("mug") + 20 * len(name) for name in names)
