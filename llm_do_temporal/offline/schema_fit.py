"""Values of a script, fitted into a JSON Schema.

Pure. Used for structured answers of offline models: properties that the script knows by name take
its value if that is valid, the others the smallest value the schema allows. The fit follows
`$ref`, `anyOf`/`oneOf`, enums, limits on numbers, strings and arrays, as output schemas use them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from llm_do_temporal.json_schema import schema_problems

MAX_DEPTH = 12
"""Deepest nesting that is followed: a schema that refers to itself would otherwise never end."""
MAX_FITTED = 2_000
"""Most values that are made or tried: alternatives that refer to their schema would make very many."""
MAX_FILLED = 10_000
"""Most characters or items that are added because a schema wants so many."""

Schema = Mapping[str, Any]


def fit(schema: Schema, known: Mapping[str, Any], *, text: str = "") -> Any:
    """Return a value for `schema`: `known` by property name, `text` for strings without a known value."""
    return _Fitting(schema, text).value(schema, known, 0)


class _Fitting:
    def __init__(self, root: Schema, text: str) -> None:
        self._root = root
        self._text = text
        self._left = MAX_FITTED

    def value(self, schema: Any, known: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            return None
        schema = self._resolved(schema)
        if not isinstance(known, Mapping | list) and self._accepts(schema, known):
            return known
        options = schema.get("anyOf", schema.get("oneOf"))
        if options is not None:
            ordered = sorted(options, key=lambda option: self._resolved(option).get("type") == "null")
            fitted = [self.value(option, known, depth + 1) for option in ordered]
            valid = [value for option, value in zip(ordered, fitted, strict=True) if self._accepts(option, value)]
            return (valid or fitted)[0]
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        return self._typed(schema, known, depth) if depth <= MAX_DEPTH else None

    def _typed(self, schema: Schema, known: Any, depth: int) -> Any:
        stated: Any = schema.get("type", "object" if "properties" in schema else "string")
        match str(cast("Sequence[Any]", stated)[0] if isinstance(stated, list) else stated):
            case "object":
                return self._object(schema, known, depth)
            case "array":
                return self._array(schema, known, depth)
            case "string":
                text = known if isinstance(known, str) else self._text
                return text[: schema.get("maxLength")].ljust(min(schema.get("minLength", 0), MAX_FILLED), "-")
            case "integer" | "number":
                return _number(schema, known)
            case "boolean":
                return bool(known)
            case _:
                return None

    def _object(self, schema: Schema, known: Any, depth: int) -> dict[str, Any]:
        source: Schema = cast("Schema", known) if isinstance(known, Mapping) else {}
        if "properties" not in schema:
            return dict(source)
        required = schema.get("required", [])
        return {
            name: self.value(property_schema, source.get(name), depth + 1)
            for name, property_schema in schema.get("properties", {}).items()
            if name in required or name in source
        }

    def _array(self, schema: Schema, known: Any, depth: int) -> list[Any]:
        items = list(cast("Sequence[Any]", known)) if isinstance(known, list | tuple) else []
        fitted = [self.value(schema.get("items", {}), item, depth + 1) for item in items[: schema.get("maxItems")]]
        while len(fitted) < min(schema.get("minItems", 0), MAX_FILLED) and self._left > 0:
            fitted.append(self.value(schema.get("items", {}), None, depth + 1))
        return fitted

    def _resolved(self, schema: Any) -> Schema:
        found: Any = schema
        for _ in range(MAX_DEPTH):
            if not isinstance(found, Mapping):
                return {}
            known = cast("Schema", found)
            if "$ref" not in known:
                return known
            found = self._root
            for step in str(known["$ref"]).removeprefix("#/").split("/"):
                found = cast("Schema", found).get(step) if isinstance(found, Mapping) else None
        return {}

    def _accepts(self, schema: Any, value: Any) -> bool:
        if value is None and self._resolved(schema).get("type") != "null":
            return False
        definitions = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
        return not schema_problems({**definitions, **self._resolved(schema)}, value)


def _number(schema: Schema, known: Any) -> float | int:
    wanted = known if isinstance(known, int | float) and not isinstance(known, bool) else 0
    least = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf) + 1)
    most = schema.get("maximum", schema.get("exclusiveMaximum", math.inf) - 1)
    bounded = max(min(wanted, most), least)
    return round(bounded) if schema.get("type") == "integer" else bounded
