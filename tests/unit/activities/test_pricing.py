"""What a turn costs: known prices are filled in, and nothing unknown is ever free."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.activities.models.pricing import priced


def answer(**more: Any) -> ModelResponse:
    usage = RequestUsage(input_tokens=900, output_tokens=100)
    known: dict[str, Any] = {"usage": usage, "model_name": "gpt-4o", "provider_name": "openai"}
    return ModelResponse(parts=[], **{**known, **more})


def test_a_known_model_has_a_price() -> None:
    assert priced(answer()).usage.cost == Decimal("0.00325")


def test_the_price_is_that_of_the_model_wherever_it_is_served() -> None:
    assert priced(answer(provider_url="http://127.0.0.1:9/v1")).usage.cost == Decimal("0.00325")


@pytest.mark.parametrize(
    "unknown",
    [
        {"model_name": "gpt-of-next-year"},
        {"model_name": None},
        {"provider_name": "offline"},
        {"usage": RequestUsage()},
        {"usage": RequestUsage(input_tokens=10, cache_read_tokens=900)},
    ],
)
def test_what_is_not_known_has_none(unknown: dict[str, Any]) -> None:
    assert priced(answer(**unknown)).usage.cost is None


def test_what_the_provider_reported_is_kept() -> None:
    usage = RequestUsage(input_tokens=900, cost=Decimal("0.5"))
    assert priced(answer(usage=usage)).usage.cost == Decimal("0.5")


def test_a_price_list_that_breaks_fails_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: ModelResponse) -> Any:
        raise RuntimeError("no list")

    monkeypatch.setattr(ModelResponse, "cost", broken)
    assert priced(answer()).usage.cost is None
