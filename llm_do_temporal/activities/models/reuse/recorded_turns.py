"""Turns of a fork that no model is asked for, because the other run has asked already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.messages.budget import Saved
from llm_do_temporal.messages.conversation import REUSED, TURN_KEYS, TurnKeys
from llm_do_temporal.messages.experiments.forks import RecordedTurn
from llm_do_temporal.messages.experiments.source import ForkSource, Reused


def keyed(answer: ModelResponse, key: str) -> ModelResponse:
    """Return the answer with the key of its turn, so that a fork finds it."""
    return replace(answer, metadata={**(answer.metadata or {}), TURN_KEYS: TurnKeys(turn=key).model_dump()})


def reused(recorded: RecordedTurn, fork: ForkSource) -> ModelResponse:
    """Return the recorded answer as that of a turn which costs nothing, with its origin and what it has saved."""
    answer = cast("ModelResponse", ModelMessagesTypeAdapter.validate_python([recorded.answer])[0])
    spent = answer.usage
    origin = Reused(
        run=fork.run,
        path=recorded.path,
        turn=recorded.turn,
        saved=Saved(
            requests=1,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=spent.cost,
        ),
    )
    free = RequestUsage(cost=Decimal(0))
    return replace(answer, usage=free, metadata={REUSED: origin.model_dump(mode="json")})


def origin_of(metadata: Mapping[str, Any] | None) -> Reused | None:
    """Return the origin of an answer that was reused; None for one that a model has given."""
    found = (metadata or {}).get(REUSED)
    return None if found is None else Reused.model_validate(found)


def turn_key_of(metadata: Mapping[str, Any] | None) -> str:
    """Return the key of the turn with this answer; empty where an earlier version has asked."""
    found = (metadata or {}).get(TURN_KEYS)
    return "" if found is None else TurnKeys.model_validate(found).turn
