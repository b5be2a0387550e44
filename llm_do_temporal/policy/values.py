"""Base of every frozen value that policy takes and returns, and uses of capabilities by calls."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Capability = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
"""Name of a capability that a call uses, like `proc.exec`."""


class Value(BaseModel):
    """Frozen value with strict keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


REPEAT = "effect.repeat"
"""Capability of the question whether to repeat an effect that may have happened. No rule answers it: only a person can.
"""
LIMIT = "limit.exceed"
"""Capability of the question at a reached limit. No rule answers it: reaching a limit always asks."""
ALWAYS_ASKS = frozenset({REPEAT, LIMIT})


class CapabilityUse(Value):
    """Use of a capability by a call, with the facts that a person is shown about it."""

    name: str
    payload: dict[str, Any] = Field(default_factory=dict)
    asks: bool | None = None
    """Setting of the file's own place (`read_approval`, `write_approval`); None leaves it to the rules."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of a table."""
    return tuple(text.split())


def canonical(arguments: object) -> str:
    """Return arguments as JSON that is the same whatever the order of their keys: the form that a grant remembers."""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
