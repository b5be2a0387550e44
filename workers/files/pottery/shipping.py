"""Postage, in cents."""

FREE_FROM = 10000


def postage(total: int) -> int:
    """Return the postage for goods of so many cents: nothing from 100 euros on."""
    return 0 if total >= FREE_FROM else 690
