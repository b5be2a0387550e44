"""What a turn costs: known prices are filled in, and nothing unknown is ever free."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelResolutionContext
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.activities.models.pricing import priced
from llm_do_temporal.policy.models import ModelAlias, serving_id


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


async def model_of(**alias: Any) -> Any:
    given = ModelAlias.model_validate(alias)
    context: ModelResolutionContext[Any] = None  # pyright: ignore[reportAssignmentType] - the builder asks it nothing
    return await build_model(context, serving_id({"own": given}, "own"))


OWN: dict[str, Any] = {"model": "openai-chat:gpt-4o", "base_url": "http://127.0.0.1:9/v1"}


async def test_a_price_of_the_workshop_holds_whatever_the_list_and_the_answer_say() -> None:
    own = await model_of(**OWN, price={"input": 1, "output": 20})
    usage = RequestUsage(input_tokens=900, output_tokens=100, cost=Decimal(7))
    assert priced(answer(usage=usage), own).usage.cost == Decimal("0.0029")


async def test_what_a_cache_held_has_a_price_of_its_own() -> None:
    own = await model_of(**OWN, price={"input": 10, "output": 20, "cache_read": 1, "cache_write": 12.5})
    usage = RequestUsage(input_tokens=1_000, output_tokens=0, cache_read_tokens=600, cache_write_tokens=100)
    assert priced(answer(usage=usage), own).usage.cost == Decimal(300 * 10 + 600 * 1 + 100 * 12.5) / 1_000_000


async def test_a_server_of_ones_own_may_be_free() -> None:
    assert priced(answer(), await model_of(**OWN, price="free")).usage.cost == 0


async def test_an_offline_model_is_free_unless_the_workshop_says_otherwise() -> None:
    assert priced(answer(), await model_of(model="offline:echo")).usage.cost == 0
    dear = await model_of(model="offline:echo", price={"input": 0, "output": 10})
    assert priced(answer(), dear).usage.cost == Decimal("0.001")


async def test_what_went_through_a_batch_costs_what_the_list_says_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing that the answer says of how it was served counts."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    asked = await build_model(cast("ModelResolutionContext[Any]", None), "openai:gpt-4o")
    served = answer(provider_details={"processing": "batch"})
    assert priced(served, asked).usage.cost == Decimal("0.00325")
    assert priced(served, asked, batched=True).usage.cost == Decimal("0.001625")


def test_without_a_price_for_batches_the_usual_one_counts() -> None:
    known = answer(model_name="llama-3.3-70b-versatile", provider_name="groq")
    usual = priced(known).usage.cost
    assert usual is not None
    assert priced(known, batched=True).usage.cost == usual
