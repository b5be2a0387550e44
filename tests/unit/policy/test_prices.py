"""Prices that a workshop states for its models."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.models.prices import NOTHING_TO_PAY, Price


@pytest.mark.parametrize(
    ("spent", "cost"),
    [
        ({"told": 1_000_000, "written": 0}, "2"),
        ({"told": 0, "written": 500_000}, "5"),
        # without a price of its own, the cache costs what is told
        ({"told": 1_000_000, "written": 0, "cache_write": 1_000_000}, "2"),
        ({"told": 1_000_000, "written": 0, "cache_read": 500_000}, "1.25"),
        # no count takes money back
        ({"told": 10, "written": 0, "cache_read": 1_000_000}, "0.5"),
    ],
)
def test_a_turn_costs_its_tokens(spent: dict[str, int], cost: str) -> None:
    price = Price.model_validate({"input": 2, "output": 10.0, "cache_read": "0.5"})
    assert price.cost_of(**spent) == Decimal(cost)


def test_free_is_a_price() -> None:
    assert Price.model_validate("free") == NOTHING_TO_PAY
    assert NOTHING_TO_PAY.cost_of(told=5_000_000, written=5_000_000) == 0


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"input": -1, "output": 1}, "greater than or equal to 0"),
        ({"input": "cheap", "output": 1}, "'cheap' is not a number of US dollars"),
        ({"input": "NaN", "output": 1}, "finite"),
        # half a price would be half of the cost
        ({"input": 1}, "output"),
        ({"input": 1, "output": 1, "cached": 1}, "cached"),
        ("gratis", "a price is `free`, or has keys"),
        (0.25, "a price is `free`, or has keys"),
    ],
)
def test_what_is_no_price_is_refused(written: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Price.model_validate(written)


def test_a_price_survives_the_way_to_an_activity() -> None:
    price = Price.model_validate({"input": 0.1, "output": 0.3, "cache_read": 0.01})
    assert Price.model_validate(price.model_dump(mode="json")) == price
    assert Price.model_validate_json(price.model_dump_json()) == price
