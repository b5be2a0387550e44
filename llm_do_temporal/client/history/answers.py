"""Models in histories: their names for people, and what their answers have spent."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from llm_do_temporal.client.history.origins import origin_of_turn
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.models import models_of

_OUTPUT = "final_result"
"""Name of the call that gives a structured result; it calls nothing."""


def spent_by(response: Mapping[str, Any], model: str, calls: list[str]) -> Usage:
    """Return what an answer of this model, with calls of these tools, has spent; of a reused one what it has saved."""
    called = len([name for name in calls if name != _OUTPUT])
    origin = origin_of_turn(response)
    if origin is not None:
        return Usage(tool_calls=called, cost_usd=Decimal(0), saved=origin.saved)
    usage = cast("dict[str, Any]", response.get("usage") or {})
    # US dollars as the model's activity wrote them.
    cost = None if usage.get("cost") is None else Decimal(str(usage["cost"]))
    return Usage(
        requests=1,
        tool_calls=called,
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cost_usd=cost,
        unpriced=() if cost is not None else (model,),
        costs={model: cost} if cost else {},
        estimated=int(usage.get("unmeasured_requests") or 0),
    )


def model_names(invocation: dict[str, Any]) -> str:
    """Return the names of an invocation's models, each alias with the model that it stands for."""
    sources = cast("dict[str, Any]", cast("dict[str, Any]", invocation.get("settings") or {}).get("models") or {})
    aliases = cast("dict[str, Any]", sources.get("aliases") or {})
    shown: list[str] = []
    for model in models_of(str(invocation.get("model", ""))):
        alias = aliases.get(model)
        shown.append(f"{model} ({cast('dict[str, Any]', alias).get('model')})" if isinstance(alias, dict) else model)
    return ", ".join(shown)
