"""Values that a model or a person wrote in another form than their schema wants. Pure.

A null for an optional key is absence. A number, boolean, list or object that is written as text is read as what it is
where the schema takes no text at that place. All else stays as it is and keeps its problems. A value that fits has a
normal form: the same result is written alike, whoever gave it, and its meaning stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import accumulate
from typing import Any, TypeAlias, cast

from jsonschema.exceptions import ValidationError

from llm_do_temporal.json_schema.patterns import Steps, TooMuchWork, UnusableSchema
from llm_do_temporal.json_schema.validation import Path, described, find_errors, find_problems
from llm_do_temporal.messages.base import read_json

_Change: TypeAlias = "tuple[Path, Any]"
_ABSENT = object()
"""New value of a key that is taken out."""
_MOST_PASSES = 8
"""Times that a value is looked at: a list that was text may hold numbers that are text."""
_MOST_NESTED = 50
"""Lists and objects within each other in one text."""
_BRACKETS = re.compile(r"[\[\]{}]")
_ALTERNATIVES = ("anyOf", "oneOf")
_PYTHON_BOOLEANS = {"True": True, "False": False}


def read_value(schema: Mapping[str, Any], value: Any, steps: Steps | None = None) -> tuple[Any, list[str]]:
    """Return the value as its schema wants it, and no problems; or the value as it is, with its problems, a line each.

    `steps` are shared by several validations; None: as many as a single one may take. The value is not changed itself.
    """
    found, problems = value, list[str]()
    try:
        for _pass in range(_MOST_PASSES):
            errors = find_errors(schema, found, steps)
            if not errors:
                return found, []
            problems = problems or described(errors)
            changes = dict(change for error in errors for change in _changes(error))
            if not changes:
                break
            found = _changed(found, changes)
    except UnusableSchema as error:
        return value, [f"nothing fits, its schema cannot be used: {error}"]
    except TooMuchWork as error:
        return value, [str(error)]
    return value, problems


def _changes(error: ValidationError) -> Iterator[_Change]:
    """Yield the changes by which the value may come to fit."""
    path, given = tuple(error.absolute_path), error.instance
    if given is None and _refuses(error, "null"):
        if path and isinstance(path[-1], str):
            yield path, _ABSENT
    elif isinstance(given, str) and _refuses(error, "string"):
        read = _read(given, is_whole=_refuses(error, "number"))
        if read is not _ABSENT:
            yield path, read
    elif error.validator == "additionalProperties" and isinstance(given, dict):
        yield from (((*path, name), _ABSENT) for name in _empty_extras(cast("dict[str, Any]", given), error.schema))
    elif error.validator in _ALTERNATIVES:
        # The alternative that is meant is the one whose type fits.
        meant = [branch for branch in _branches(error) if not any(_is_of_place(one, error) for one in branch)]
        if len(meant) == 1:
            for inner in meant[0]:
                yield from _changes(inner)


def _refuses(error: ValidationError, kind: str) -> bool:
    """Whether the error says that no value of this JSON type fits at its place."""
    wanted: Any = error.validator_value
    if error.validator == "type":
        return kind not in (wanted if isinstance(wanted, list) else [wanted])
    if error.validator in ("enum", "const"):
        return kind not in {_kind(one) for one in (wanted if error.validator == "enum" else [wanted])}
    if error.validator in _ALTERNATIVES:
        branches = _branches(error)
        return bool(branches) and all(
            any(_is_of_place(one, error) and _refuses(one, kind) for one in branch) for branch in branches
        )
    return False


def _is_of_place(inner: ValidationError, error: ValidationError) -> bool:
    """Whether an error of an alternative is about the type of the whole value."""
    same = len(inner.absolute_path) == len(error.absolute_path)
    return same and inner.validator in ("type", "enum", "const", *_ALTERNATIVES)


def _branches(error: ValidationError) -> list[list[ValidationError]]:
    """Return the errors of each alternative."""
    found: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        found.setdefault(inner.relative_schema_path[0], []).append(inner)
    return list(found.values())


def _empty_extras(given: dict[str, Any], schema: Any) -> list[str]:
    """Return the keys that are null and that the schema does not know."""
    if not isinstance(schema, dict) or "patternProperties" in schema:
        return []
    known: Any = cast("dict[str, Any]", schema).get("properties", {})
    return [name for name, value in given.items() if value is None and name not in known]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds: tuple[tuple[Any, str], ...] = ((str, "string"), (int, "integer"), (float, "number"), (type(None), "null"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "")


def _read(text: str, *, is_whole: bool) -> Any:
    """Return the value of a JSON text; `is_whole`: a number is an integer. _ABSENT where it has none, or two."""
    if text in _PYTHON_BOOLEANS:
        return _PYTHON_BOOLEANS[text]
    levels = accumulate(1 if one[0] in "[{" else -1 for one in _BRACKETS.finditer(text))
    if any(level > _MOST_NESTED for level in levels):
        return _ABSENT
    try:
        read = read_json(text)
    except ValueError:
        return _ABSENT
    if isinstance(read, float) and is_whole and read.is_integer():
        return int(read)
    return _ABSENT if isinstance(read, str) else read


def _changed(value: Any, changes: Mapping[Path, Any]) -> Any:
    """Return a copy of the value with the changes."""
    if () in changes:
        return changes[()]
    changed = deepcopy(value)
    for path, new in changes.items():
        at: Any = changed
        for step in path[:-1]:
            at = at[step]
        if new is _ABSENT:
            at.pop(path[-1], None)
        else:
            at[path[-1]] = new
    return changed


_DEFS = "#/$defs/"
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
