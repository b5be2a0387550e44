"""Butter dishes, of the first or the second choice."""

from pottery.prices import get_price


def butter_dish(second_choice: bool = False) -> int:
    """Return the price of a butter dish, in cents; one of the second choice costs half."""
    return get_price("butter dish") // (2 if second_choice else 1)
