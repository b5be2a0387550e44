"""Schemas of tools from elsewhere, in the form in which values can be judged by them.

Owns what becomes of keywords of older drafts, and of those that cannot be judged: they are left out, and the toolset
judges them itself. Called when the tools of a toolset are listed.
"""

from __future__ import annotations

import copy
from typing import Any, cast

from llm_do_temporal.json_schema import find_schema_problems

LEFT_OUT = "x-left-out"
"""Key of a schema that stands for one that could not be read; its value is the reason."""
_MOST_LEFT_OUT = 20
_MOST_NESTED = 100
_NAMED = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
"""Keywords whose values are schemas by name."""
_VALUES = ("enum", "const", "default", "examples", "example", "required")
_TURNED = ("not", "if", "oneOf", "contains", "propertyNames")
"""Keywords under which a schema that takes more lets the whole take less."""
_EVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def usable_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str], str | None]:
    """Return the schema in its usable form, the places of the keywords left out, and the problem that remains.

    The problem is None for a schema that can be used.
    """
    usable = cast("dict[str, Any]", _modern(copy.deepcopy(schema), 0))
    usable.pop("$schema", None)
    left: list[str] = []
    while problems := find_schema_problems(usable):
        path, message = problems[0]
        if not path or len(left) == _MOST_LEFT_OUT or not _without(usable, list(path)):
            return usable, left, message
        left.append(".".join(str(part) for part in path))
    return usable, left, None


def _modern(schema: Any, depth: int) -> Any:
    """Return a schema with the keywords of older drafts in their present form."""
    if isinstance(schema, list):
        return [_modern(one, depth + 1) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict) or depth > _MOST_NESTED:
        return cast("Any", schema)
    found: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in _NAMED and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            found[key] = {name: _modern(one, depth + 2) for name, one in named.items()}
        else:
            found[key] = value if key in _VALUES else _modern(value, depth + 1)
    for exclusive, bound in _BOUNDS:
        if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and bound in found:
            found[exclusive] = found.pop(bound)
    if isinstance(found.get("items"), list):
        found["prefixItems"] = found.pop("items")
        if "additionalItems" in found:
            found["items"] = found.pop("additionalItems")
    if isinstance(found.get("required"), bool):
        del found["required"]
    if isinstance(found.get("id"), str):
        del found["id"]
    return found


def _forget_evaluated(schema: Any) -> None:
    """Leave out keywords that depend on what the keywords beside them have found."""
    if isinstance(schema, dict):
        for keyword in _EVALUATED:
            cast("dict[str, Any]", schema).pop(keyword, None)


def _without(schema: Any, path: list[Any]) -> bool:
    """Leave out what stands at the path, so that no value becomes wrong by it; return whether that was possible.

    What stands in a negation, a condition or a choice is left out with that.
    """
    path = path[: next((place + 1 for place, part in enumerate(path) if part in _TURNED), len(path))]
    for part in path[:-1]:
        _forget_evaluated(schema)
        if part == "patternProperties":
            # Names that only the pattern allowed.
            schema.pop("additionalProperties", None)
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return False
    _forget_evaluated(schema)
    last = path[-1]
    if len(path) > 1 and path[-2] == "properties":
        schema[last] = {}
        return True
    if isinstance(schema, dict) and last in schema:
        del schema[last]
        return True
    return False
