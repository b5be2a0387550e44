"""Goods for the garden."""

import unittest

from pottery.garden import bird_bath, flowerpot, planter, tile, tray, urn
from pottery.prices import get_price


class GardenTest(unittest.TestCase):
    """Goods for the garden."""

    def test_a_dozen_costs_what_ten_do(self) -> None:
        """Thirteen pots cost what eleven do."""
        assert flowerpot.flowerpots(13) == 11 * get_price("flowerpot")

    def test_a_planter_has_a_tray(self) -> None:
        """The tray can be left out."""
        assert planter.planter() == planter.planter(tray=False) + tray.trays(1)

    def test_large_things(self) -> None:
        """Feet, square metres and haste."""
        assert bird_bath.bird_bath(on_foot=True) == 2 * get_price("bird bath")
        assert tile.tiles(2) == 50 * get_price("tile")
        assert urn.urn(weeks=3) == get_price("urn") * 6 // 5
