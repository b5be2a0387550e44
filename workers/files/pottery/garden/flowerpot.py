"""Flowerpots, by the dozen."""

from pottery.prices import get_price


def flowerpots(pieces: int) -> int:
    """Return the price of so many flowerpots, in cents: a dozen costs what ten do."""
    dozens, rest = divmod(pieces, 12)
    return (10 * dozens + rest) * get_price("flowerpot")
