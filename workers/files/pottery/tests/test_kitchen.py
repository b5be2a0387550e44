"""Goods for the kitchen."""

import unittest

from pottery.kitchen import baking_dish, butter_dish, cask, crock, jar, jug, mortar
from pottery.prices import get_price


class KitchenTest(unittest.TestCase):
    """Goods for the kitchen."""

    def test_the_fifth_jar_is_free(self) -> None:
        """Of five jars four are paid."""
        assert jar.jars(5) == 4 * get_price("jar")

    def test_long_dishes_cost_more(self) -> None:
        """What is longer than 30 cm costs more."""
        assert baking_dish.baking_dish(32) == baking_dish.baking_dish(30) + 80

    def test_second_choice_costs_half(self) -> None:
        """A flaw halves the price."""
        assert 2 * butter_dish.butter_dish(second_choice=True) == get_price("butter dish")

    def test_vessels(self) -> None:
        """Taps, weights, litres and pestles."""
        assert cask.cask(taps=2) == get_price("cask") + 350
        assert crock.crock(weights=2) == get_price("crock") + 2 * get_price("weight")
        assert jug.jug(3) == 2 * get_price("jug")
        assert mortar.mortar(pestle=False) == get_price("mortar") - 700
