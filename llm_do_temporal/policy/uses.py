"""Uses of capabilities by a call, and the form in which arguments are compared."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from llm_do_temporal.policy.values import Value

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


def canonical(arguments: object) -> str:
    """Return arguments as JSON that is the same whatever the order of their keys: the form that a grant remembers."""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
