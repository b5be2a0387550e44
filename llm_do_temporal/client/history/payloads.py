"""Values in payloads of histories, read without knowing their types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payload

from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.storage.external_storage import is_kept_outside

SHOWN_CHARS = 200
"""Longest text of an argument in an event for people."""
_SHOWN_PARTS, _SHOWN_LEVELS = 50, 8
M = TypeVar("M", bound=BaseModel)


def decode_json(payload: Payload) -> Any:
    """A payload's JSON value, or None when it holds something else, is nested too deep, or is kept elsewhere."""
    if is_kept_outside(payload):
        return None
    try:
        return json.loads(payload.data)
    except (ValueError, RecursionError):
        return None


def first_object(payloads: Sequence[Payload]) -> dict[str, Any]:
    """The first payload as an object; an empty one when it is something else, or cannot be read here."""
    return as_object(decode_json(payloads[0]) if payloads else None)


def read_message(kind: type[M], value: Any) -> M | None:
    """Return the message of this kind; None where the value is none, as one that is kept elsewhere."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


def read_start(payloads: Sequence[Payload]) -> StartRunInput:
    """Return the start of a run, without what an earlier execution has left, from the input of its workflow.

    Of one that is wrong, or cannot be read here, the prompt alone.
    """
    given = first_object(payloads)
    start = read_message(StartRunInput, {name: given[name] for name in given if name != "continued"})
    return start or StartRunInput(worker="", prompt=str(given.get("prompt") or ""))


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON value as an object; an empty one when it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def shortened(value: Any, *, depth: int = 0) -> Any:
    """Return a JSON value with its long texts and lists cut, and with an ellipsis for what lies deep in it."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARS else f"{value[: SHOWN_CHARS - 1]}…"
    if not isinstance(value, dict | list):
        return value
    if depth == _SHOWN_LEVELS:
        return "…"
    if isinstance(value, dict):
        given = list(cast("dict[str, Any]", value).items())
        return {shortened(name): shortened(one, depth=depth + 1) for name, one in given[:_SHOWN_PARTS]}
    parts = cast("list[Any]", value)
    cut = ["…"] if len(parts) > _SHOWN_PARTS else []
    return [shortened(one, depth=depth + 1) for one in parts[:_SHOWN_PARTS]] + cut
