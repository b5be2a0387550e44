"""What people type at the counter."""

import unittest

from pottery.counter import HELP, UNKNOWN, answer, cheapest
from pottery.invoice import euros
from pottery.prices import get_price


class CounterTest(unittest.TestCase):
    """What people type at the counter."""

    def test_every_word_of_the_help_is_understood(self) -> None:
        """What the help lists can be typed."""
        for usage in HELP:
            word = usage.split()[0].strip(",")
            assert answer(f"{word} bowl 2") != UNKNOWN, usage

    def test_an_invoice_has_the_postage(self) -> None:
        """Two bowls are less than 100 euros."""
        assert answer("invoice bowl 2").endswith(f"total: {euros(2 * get_price('bowl') + 690)}")

    def test_the_cheapest_is_a_tile(self) -> None:
        """Nothing costs less than a tile."""
        assert cheapest() == "tile"
