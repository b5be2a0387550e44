"""Base of every frozen value that policy takes and returns, uses of capabilities by calls, and shapes of keys."""

from __future__ import annotations

import json
import re
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


_KEY_PREFIX = re.compile(r"(?:sk-|sk_|pk_|AIza|ghp_|gho_|github_pat_|xox[abp]-|hf_|AKIA|ya29\.|Bearer\s|Basic\s)")
_KEY_LIKE = re.compile(r"[A-Za-z0-9_\-]{32,}")


def begins_like_key(value: str) -> bool:
    """Return whether a text begins as keys of a known provider do."""
    return _KEY_PREFIX.match(value) is not None


def looks_like_key(value: str) -> bool:
    """Return whether a text is probably a secret: it has a known prefix, or is long and of letters and digits."""
    if begins_like_key(value):
        return True
    return any(re.search(r"\d", part) and re.search(r"[A-Za-z]", part) for part in _KEY_LIKE.findall(value))
