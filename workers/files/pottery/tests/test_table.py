"""Goods for the table."""

import unittest

from pottery.prices import get_price
from pottery.table import beaker, bowl, cup, mug, plate, saucer, teapot


class TableTest(unittest.TestCase):
    """Goods for the table."""

    def test_half_a_dozen_bowls_are_cheaper(self) -> None:
        """Six bowls cost a tenth less."""
        assert bowl.bowls(6) == 6 * get_price("bowl") * 9 // 10

    def test_beakers_come_in_pairs(self) -> None:
        """A pair is two beakers."""
        assert beaker.beakers(3) == 6 * get_price("beaker")

    def test_a_cup_may_have_a_saucer(self) -> None:
        """A saucer costs what it does alone."""
        assert cup.cups(2, saucers=True) == cup.cups(2) + saucer.saucers(2)

    def test_a_name_costs_by_its_letters(self) -> None:
        """A letter costs 20 cents."""
        assert mug.mugs(["ada", ""]) == 2 * get_price("mug") + 60

    def test_plates_and_teapots(self) -> None:
        """Small plates are a third cheaper; a lid is a quarter of a teapot."""
        assert plate.plates(1, 3) == 3 * get_price("plate") - 2
        assert teapot.teapot(spare_lid=True) == get_price("teapot") * 5 // 4
