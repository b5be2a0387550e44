"""Tiles, by the square metre."""

from pottery.prices import get_price


def tiles(square_metres: int) -> int:
    """Return the price of tiles for so many square metres, in cents: 25 are one."""
    return 25 * square_metres * get_price("tile")
