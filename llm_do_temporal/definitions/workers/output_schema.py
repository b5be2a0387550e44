"""Static checks of the JSON Schema of a worker's result. Loads no class."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from llm_do_temporal.definitions.yaml.lines import KeyPath

_DEFS = "#/$defs/"


def check_output_schema(schema: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """Return the problems of a schema for a worker's result, each as the path in the schema and a message."""
    # Imported here: most workers have no schema, and the import takes as long as everything else together.
    from llm_do_temporal.json_schema import find_schema_problems

    problems: list[tuple[KeyPath, str]] = [
        (path, f"not valid JSON Schema {message}" if path else f"not valid JSON Schema: {message}")
        for path, message in find_schema_problems(schema)
    ]
    if not problems and schema.get("type") != "object" and "$ref" not in schema:
        problems.append((("type",), "the type of a result must be 'object'"))
    return problems or [*_reference_problems(schema), *_impossible_choices(schema, ())]


def _reference_problems(schema: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield references that lead nowhere or in circles: models are given schemas with all references inlined."""
    raw = schema.get("$defs")
    definitions = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    graph: dict[str, set[str]] = {"": set(), **{name: set() for name in definitions}}
    for path, target in _references(cast("Any", schema), ()):
        name = target.removeprefix(_DEFS)
        if not target.startswith(_DEFS) or name not in definitions:
            yield path, f"'$ref: {target}' leads nowhere; a reference is '{_DEFS}NAME' with NAME under '$defs'"
            return
        graph[str(path[1]) if path[0] == "$defs" and len(path) > 2 else ""].add(name)
    for name in definitions:
        if name in _reachable(graph, name):
            yield ("$defs", name), f"'{name}' refers to itself; a recursive schema cannot describe a result"


def _impossible_choices(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield values of `enum` and `const` that the type beside them excludes: no answer can ever be one of them."""
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        given = schema.get("type")
        types = [given] if isinstance(given, str) else cast("list[Any]", given) if isinstance(given, list) else []
        choices = [("enum", one) for one in _listed(schema.get("enum"))]
        choices += [("const", schema["const"])] if "const" in schema else []
        for key, value in choices if types and "properties" not in path[-1:] else []:
            # Null among others is only left over; a model is not misled by it.
            if value is not None and not any(_is_of_type(value, str(one)) for one in types):
                said = json.dumps(value, ensure_ascii=False)[:60]
                yield (*path, key), f"'{key}' has {said}, which is not of type {' or '.join(map(str, types))}"
        for key, value in schema.items():
            if key not in ("enum", "const", "default", "examples"):
                yield from _impossible_choices(value, (*path, key))
    else:
        for place, item in enumerate(_listed(node)):
            yield from _impossible_choices(item, (*path, place))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_of_type(value: Any, name: str) -> bool:
    if isinstance(value, bool) or value is None:
        return name == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        return name == "number" or (name == "integer" and float(value).is_integer())
    return name == ("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object")


def _references(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key == "$ref" and isinstance(value, str):
                yield (*path, key), value
            else:
                yield from _references(value, (*path, key))
    elif isinstance(node, list):
        for place, item in enumerate(cast("list[Any]", node)):
            yield from _references(item, (*path, place))


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    pending = list(graph[start])
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(graph[name])
    return found
