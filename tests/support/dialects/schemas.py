"""What providers refuse in the tools of a request, beside their names."""

from __future__ import annotations

import re

from tests.support.dialects.answers import Json

_AT_TOP = ("oneOf", "allOf", "anyOf", "enum", "not")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def wrong_tool(schema: Json, description: str | None = None) -> str | None:
    """What is refused in a tool; None where it is fine."""
    if schema.get("type") != "object" or any(word in schema for word in _AT_TOP):
        return f"schema must have type 'object' and not have {_AT_TOP} at the top level: {sorted(schema)}"
    named: Json = schema.get("properties") or {}
    if wrong := [key for key in named if _KEY.fullmatch(key) is None]:
        return f"Property keys should match pattern '{_KEY.pattern}': {wrong}"
    if len(description or "") > 1024:
        return f"string too long. Expected a string with maximum length 1024, but got {len(description or '')}"
    return None
