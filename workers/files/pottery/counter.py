"""The counter: what people type there, and what it answers."""

from pottery.invoice import euros, invoice
from pottery.prices import PRICES, get_price

UNKNOWN = "unknown; try: help"
OPEN = {
    "tuesday": "10 to 18",
    "thursday": "10 to 20",
    "saturday": "9 to 13",
}

HELP = {
    "articles": "all articles",
    "hours": "when the shop is open",
    "get_price ARTICLE": "the price of one piece",
    "invoice ARTICLE PIECES": "an invoice with the postage",
    "help": "this list",
}


def answer(typed: str) -> str:
    """Return the answer to what was typed."""
    word, *arguments = typed.split()
    if word == "help":
        return "\n".join(f"{usage}: {meaning}" for usage, meaning in HELP.items())
    if word == "articles":
        return ", ".join(sorted(PRICES))
    if word == "hours":
        return "\n".join(f"{day}: {hours}" for day, hours in OPEN.items())
    if not arguments or arguments[0] not in PRICES:
        return UNKNOWN
    if word == "get_price":
        return one_piece(arguments[0])
    if word == "invoice":
        return invoice({arguments[0]: int(arguments[1])})
    return UNKNOWN


def one_piece(article: str) -> str:
    """Return the price of one piece, in euros."""
    return euros(get_price(article))


def cheapest() -> str:
    """Return the article to offer to those who ask for something small."""
    return min(PRICES, key=get_price)
