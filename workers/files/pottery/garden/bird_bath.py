"""Bird baths, on a foot or for the ground."""

from pottery.prices import get_price


def bird_bath(on_foot: bool) -> int:
    """Return the price of a bird bath, in cents; the foot costs as much as the bath."""
    return get_price("bird bath") * (2 if on_foot else 1)
