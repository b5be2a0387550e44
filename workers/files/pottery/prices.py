"""Prices of single pieces, in cents."""

PRICES = {
    "baking dish": 3400,
    "beaker": 900,
    "bird bath": 6800,
    "bowl": 1400,
    "butter dish": 2400,
    "cask": 8900,
    "crock": 4600,
    "cup": 1100,
    "flowerpot": 450,
    "jar": 1300,
    "jug": 2800,
    "mortar": 3900,
    "mug": 1250,
    "planter": 5200,
    "plate": 1600,
    "saucer": 600,
    "teapot": 5200,
    "tile": 180,
    "tray": 400,
    "urn": 12000,
    "weight": 500,
}


def get_price(article: str) -> int:
    """Return the price of one piece. Raises KeyError for what is not made here."""
    return PRICES[article]
