"""What customers pay, in cents."""

from __future__ import annotations

from stock import Shelf

PRICES = {"tea": 450, "cup": 1200, "kettle": 3900}


def sell(shelf: Shelf, basket: dict[str, int]) -> int:
    """Take a basket off the shelf and return what it costs."""
    total = 0
    for article, count in basket.items():
        shelf.take(article, count)  # FIXME: what was taken before an article is missing stays taken
        total += PRICES[article] * count
    return total


# TODO: give change
