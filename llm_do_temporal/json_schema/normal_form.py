"""Normal form of a value that fits its schema: the same result is written alike, whichever model or person gave it.

Pure. The meaning of a value stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from llm_do_temporal.json_schema.steps import UnusableSchema
from llm_do_temporal.json_schema.validation import find_problems

_DEFS = "#/$defs/"
_ALTERNATIVES = ("anyOf", "oneOf")
_OWN = ("type", "properties", "items", "prefixItems")
"""Keywords with which a schema describes the value itself, so that its alternatives only add conditions."""
_MOST_FOLLOWED = 100
"""References and alternatives followed one behind another, so that a circle of them ends."""
_MOST_ALTERNATIVES = 50
"""Values that are compared with alternatives; later values keep the form they have."""


def normalised(schema: Mapping[str, Any], value: Any) -> Any:
    """Return the value with keys in the order of the schema, others behind them by name, and 1.0 as 1 for integers.

    `value` fits the schema.
    """
    return _Form(schema).of(schema, value)


class _Form:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._defs = cast("dict[str, Any]", schema.get("$defs") or {})
        self._left = _MOST_ALTERNATIVES

    def of(self, schema: Any, value: Any) -> Any:
        found = self._meant(schema, value)
        if isinstance(value, dict):
            return self._object(found, cast("dict[str, Any]", value))
        if isinstance(value, list):
            return self._array(found, cast("list[Any]", value))
        if isinstance(value, float) and value.is_integer() and found.get("type") in ("integer", ["integer", "null"]):
            return int(value)
        return value

    def _object(self, schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        properties = cast("dict[str, Any]", schema.get("properties") or {})
        names = [name for name in properties if name in value] + sorted(value.keys() - properties.keys())
        rest = schema.get("additionalProperties")
        return {name: self.of(properties.get(name, rest), value[name]) for name in names}

    def _array(self, schema: Mapping[str, Any], value: list[Any]) -> list[Any]:
        first = cast("Sequence[Any]", schema.get("prefixItems") or ())
        rest = schema.get("items")
        return [self.of(first[place] if place < len(first) else rest, one) for place, one in enumerate(value)]

    def _meant(self, schema: Any, value: Any) -> Mapping[str, Any]:
        """Return the part of the schema that describes the value; an empty one where none does."""
        followed = 0
        while isinstance(schema, dict) and followed < _MOST_FOLLOWED:
            node = cast("dict[str, Any]", schema)
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith(_DEFS):
                schema = self._defs.get(reference.removeprefix(_DEFS))
                followed += 1
                continue
            alternatives = next((node[key] for key in _ALTERNATIVES if isinstance(node.get(key), list)), None)
            if alternatives is None or not node.keys().isdisjoint(_OWN):
                return node
            schema = self._fitting(cast("list[Any]", alternatives), value)
            followed += 1
        return {}

    def _fitting(self, alternatives: Sequence[Any], value: Any) -> Any:
        for one in alternatives:
            if self._left <= 0 or not isinstance(one, dict):
                return None
            self._left -= 1
            try:
                if not find_problems({**cast("dict[str, Any]", one), "$defs": self._defs}, value):
                    return cast("dict[str, Any]", one)
            except UnusableSchema:
                return None
        return None
