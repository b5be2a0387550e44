"""Invoices: lines of articles, and what they come to."""

from pottery.prices import get_price
from pottery.shipping import postage


def invoice(pieces: dict[str, int]) -> str:
    """Return the invoice for so many pieces of each article, with the postage."""
    lines = [f"{count} x {article}: {euros(count * get_price(article))}" for article, count in pieces.items()]
    total = sum(count * get_price(article) for article, count in pieces.items())
    return "\n".join([*lines, f"postage: {euros(postage(total))}", f"total: {euros(total + postage(total))}"])


def euros(cents: int) -> str:
    """Return an amount as people write it."""
    return f"{cents // 100}.{cents % 100:02d}"
