"""What a pottery makes, and what that costs."""

from pottery.prices import get_price

__all__ = ["get_price"]
