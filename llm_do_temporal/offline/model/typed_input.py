"""Fields of a typed input, as a prompt holds them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llm_do_temporal.offline.model.seen import SeenRequest, fields_of


def given_fields(seen: SeenRequest) -> Mapping[str, Any]:
    """Return the first JSON object of the prompt; empty if it has none."""
    start = seen.prompt.find("{")
    try:
        return fields_of(json.JSONDecoder().raw_decode(seen.prompt[start:])[0]) if start >= 0 else {}
    except (ValueError, RecursionError):
        return {}


def whole_number(value: Any, otherwise: int) -> int:
    """Return `value` if it is a whole number that is not negative, else `otherwise`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
