"""Urns, made to order."""

from pottery.prices import get_price


def urn(weeks: int) -> int:
    """Return the price of an urn, in cents: less than six weeks make it a fifth dearer."""
    price = get_price("urn")
    return price if weeks >= 6 else price * 6 // 5
