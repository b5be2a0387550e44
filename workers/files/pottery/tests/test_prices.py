"""Prices of single pieces."""

import unittest

from pottery.prices import PRICES, get_price


class PricesTest(unittest.TestCase):
    """Prices of single pieces."""

    def test_an_article_has_a_price(self) -> None:
        """A piece costs what the list says."""
        assert get_price("bowl") == PRICES["bowl"]

    def test_what_is_not_made_has_none(self) -> None:
        """Nobody is told a price for glass."""
        with self.assertRaises(KeyError):  # noqa: PT027 - these tests need nothing but Python
            get_price("vase of glass")
