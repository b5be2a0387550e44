"""Crocks for pickling, with weights."""

from pottery.prices import get_price


def crock(weights: int = 0) -> int:
    """Return the price of a crock with so many weights, in cents."""
    return get_price("crock") + weights * get_price("weight")
