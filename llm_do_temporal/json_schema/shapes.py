"""Shape of a schema: the places of its patterns and references, and its size with references written out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

Path: TypeAlias = tuple[str | int, ...]

MAX_WRITTEN_OUT = 50_000
"""Values, with each reference replaced by its target: some providers are given a schema in that form."""
_OF_VALUES = frozenset({"enum", "const", "default", "examples", "example"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def parts_of(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every object in a schema that may be a schema itself, with its path, in the order of the text."""
    pending: list[tuple[Path, Any, bool]] = [((), schema, False)]
    while pending:
        path, node, is_by_name = pending.pop()
        if isinstance(node, list):
            items = list(enumerate(cast("list[Any]", node)))
            pending.extend(((*path, place), item, False) for place, item in reversed(items))
        elif isinstance(node, dict):
            known = cast("dict[str, Any]", node)
            if not is_by_name:
                yield path, known
            pending.extend(
                ((*path, key), value, not is_by_name and key in _BY_NAME)
                for key, value in reversed(known.items())
                if is_by_name or key not in _OF_VALUES
            )


def patterns_of(schema: Any) -> Iterator[tuple[Path, str]]:
    """Yield every pattern in a schema, with its path."""
    for path, part in parts_of(schema):
        pattern, by_name = part.get("pattern"), part.get("patternProperties")
        if isinstance(pattern, str):
            yield (*path, "pattern"), pattern
        if isinstance(by_name, dict):
            for name in cast("dict[str, Any]", by_name):
                yield (*path, "patternProperties", name), name


def reference_problem(schema: Any) -> tuple[Path, str] | None:
    """Return the first reference that leads out of the schema or nowhere, or None. Nothing is fetched."""
    references = [
        (path, key, part[key])
        for path, part in parts_of(schema)
        for key in _REFERENCES
        if isinstance(part.get(key), str)
    ]
    if not references:
        return None
    root = DRAFT202012.create_resource(schema)
    base = root.id() or ""
    registry = Registry[Any]().with_resource(base, root).crawl()
    for path, key, reference in references:
        resolver, node = registry.resolver(base), schema
        for step in path:
            node = node[step]
            # What `$id` names is the place that references in it begin at.
            if _has_id(node):
                resolver = resolver.in_subresource(DRAFT202012.create_resource(node))
        try:
            resolver.lookup(reference)
        except (Unresolvable, ValueError, LookupError, AttributeError):
            return (*path, key), (
                f"'{key}: {ascii(reference)[1:-1][:120]}' leads nowhere in this schema; write what it names under "
                "'$defs' and refer to '#/$defs/NAME'; nothing is fetched"
            )
    return None


def _has_id(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(cast("dict[str, Any]", node).get("$id"), str)


def is_too_large_written_out(schema: dict[str, Any]) -> bool:
    """Return whether references that name each other make a small schema huge."""
    count = 0
    pending: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    while pending:
        node, within = pending.pop()
        count += 1
        if count > MAX_WRITTEN_OUT:
            return True
        if isinstance(node, list):
            pending.extend((item, within) for item in cast("list[Any]", node))
        elif isinstance(node, dict):
            known = cast("dict[str, Any]", node)
            reference = known.get("$ref")
            if isinstance(reference, str) and reference not in within:
                pending.append((_at(schema, reference), within | {reference}))
            # What is only named counts where it is named.
            skipped = ("$defs", "definitions") if node is schema else ()
            pending.extend((value, within) for key, value in known.items() if key not in skipped)
    return False


def _at(schema: Any, reference: str) -> Any:
    node = schema
    for step in reference.removeprefix("#").split("/")[1:]:
        node = (
            cast("dict[str, Any]", node).get(step.replace("~1", "/").replace("~0", "~"))
            if isinstance(node, dict)
            else None
        )
    return node
