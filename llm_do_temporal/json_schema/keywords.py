"""Keywords of JSON Schema as the `jsonschema` package has them, each with its work counted.

Keywords that would run Python's regular expressions, or compare everything with everything, are done here. Nothing is
fetched, whatever a reference names, and a `$schema` inside a schema chooses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create  # pyright: ignore[reportUnknownVariableType]
from referencing import Registry

from llm_do_temporal.json_schema.patterns import Patterns
from llm_do_temporal.json_schema.steps import meter

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]
_SHOWN = 10
_REFERENCES = ("$ref", "$dynamicRef")
_REFERENCE_STEPS = 5
_SEARCH_STEPS = 15
_ERROR_STEPS = 3
_MOST_INTEGER = 2**63


def validator_of(schema: Any, patterns: Patterns) -> Any:
    """Return a validator whose work is counted and that looks nothing up."""
    # Any other registry, no one at all included, would fetch what a reference names.
    return _Bounded(schema, registry=Registry[Any](), format_checker=cast("Any", patterns))


def _patterns(validator: Any) -> Patterns:
    # The one thing that is handed on to the validators of all parts of a schema; formats are not checked.
    return cast("Patterns", validator.format_checker)


def _counted(name: str, keyword: Keyword) -> Keyword:
    def run(validator: Any, given: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        now = meter()
        now.enter()
        try:
            now.steps.spend(1 + _listed(name, given))
            for error in keyword(validator, given, instance, schema) or ():
                # Its message has both written out.
                now.steps.spend(_ERROR_STEPS + now.weight(instance) + now.weight(given))
                yield error
        finally:
            now.leave()

    return run


def _listed(name: str, given: Any) -> int:
    """Return the steps of a keyword that goes through its whole argument, whatever the value is."""
    if name in _REFERENCES:
        # All that is not written as a path is looked for in the whole schema.
        is_path = given == "#" or given.startswith("#/")
        return _REFERENCE_STEPS + (given.count("/") if is_path else _SEARCH_STEPS * meter().searched)
    if name in ("enum", "const"):
        return meter().weight(given)
    return len(cast("Collection[Any]", given)) // 8 if isinstance(given, list | dict) else 0


def _applicable(schema: Any) -> Iterable[tuple[str, Any]]:
    meter().steps.spend(1 + len(schema) // 8)
    return cast("Mapping[str, Any]", schema).items()


def _found(validator: Any, pattern: str, text: str) -> bool:
    return _patterns(validator).found(pattern, text, meter().steps)


def _pattern(validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _found(validator, pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in cast("dict[str, Any]", instance).items():
            if _found(validator, pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    values = cast("dict[str, Any]", instance)
    meter().steps.spend(len(values) // 8)
    extras = [
        name for name in values if name not in known and not any(_found(validator, one, name) for one in patterns)
    ]
    if isinstance(allowed, dict):
        for name in extras:
            yield from validator.descend(values[name], allowed, path=name)
    elif not allowed and extras and patterns:
        listed = ", ".join(repr(one) for one in sorted(patterns)[:_SHOWN])
        verb = "does" if len(extras) == 1 else "do"
        yield ValidationError(f"{_names(extras)} {verb} not match any of the regexes: {listed}")
    elif not allowed and extras:
        verb = "was" if len(extras) == 1 else "were"
        meter().steps.spend(len(known) // 8)
        allows = f"; allowed are {_names(known)}" if known else ""
        yield ValidationError(f"Additional properties are not allowed ({_names(extras)} {verb} unexpected){allows}")


def _unique_items(_validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if not wanted or not isinstance(instance, list):
        return
    items = cast("list[Any]", instance)
    meter().steps.spend(2 * len(items) + 12 * meter().weight(items))
    # Sorted and not hashed: numbers can be chosen so that all their hashes are one.
    keys = sorted(_key(item) for item in items)
    if any(first == second for first, second in pairwise(keys)):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _key(value: Any) -> str:
    """Return a text that equal JSON values share: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        return "{" + ",".join(f"{name!r}:{_key(known[name])}" for name in sorted(known)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_key(item) for item in cast("list[Any]", value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return hex(int(value))
    return hex(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    values = cast("dict[str, Any]", instance)
    seen = _evaluated(validator, values, schema, _own_properties)
    extras = [
        name for name in values if name not in seen and next(validator.descend(values[name], allowed), None) is not None
    ]
    if extras:
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Unevaluated properties are not allowed ({_names(extras)} {verb} unexpected)")


def _unevaluated_items(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, list):
        return
    items = cast("list[Any]", instance)
    seen = _evaluated(validator, items, schema, _own_items)
    extras = [
        place
        for place, item in enumerate(items)
        if place not in seen and next(validator.descend(item, allowed), None) is not None
    ]
    if extras:
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Unevaluated items are not allowed (at {_names(extras)} {verb} unexpected)")


def _own_properties(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        yield from instance
    yield from (name for name in instance if name in schema.get("properties", {}))
    for pattern in schema.get("patternProperties", {}):
        yield from (name for name in instance if _found(validator, pattern, name))


def _own_items(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if "items" in schema or "unevaluatedItems" in schema:
        yield from range(len(instance))
    yield from range(min(len(instance), len(schema.get("prefixItems", []))))
    if "contains" in schema:
        fitting = validator.evolve(schema=schema["contains"])
        yield from (place for place, item in enumerate(instance) if fitting.is_valid(item))


def _evaluated(
    validator: Any, instance: Any, schema: Any, own: Callable[[Any, Any, Any], Iterator[Any]], *, is_top: bool = True
) -> set[Any]:
    """Return the names, or the positions, of the value that any part of the schema judges."""
    now = meter()
    if not isinstance(schema, dict):
        return set()
    known = cast("dict[str, Any]", schema)
    if is_top:
        # What is looked for is what the rest of the schema leaves over.
        known = {key: value for key, value in known.items() if key not in ("unevaluatedProperties", "unevaluatedItems")}
    now.enter()
    try:
        now.steps.spend(1 + len(instance) // 8 + len(known) // 8)
        seen = set(own(validator, instance, known))
        for key in (key for key in _REFERENCES if key in known):
            reference = known[key]
            now.steps.spend(_listed(key, reference))
            resolved = validator._resolver.lookup(reference)
            inner = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            seen |= _evaluated(inner, instance, resolved.contents, own, is_top=False)
        for part in _parts_in_force(validator, instance, known):
            seen |= _evaluated(validator, instance, part, own, is_top=False)
    finally:
        now.leave()
    return seen


def _parts_in_force(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key, ()):
            if next(validator.descend(instance, part), None) is None:
                yield part
    if isinstance(instance, dict):
        names = cast("dict[str, Any]", instance)
        yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in names)
    if "if" in schema:
        holds = next(validator.descend(instance, schema["if"]), None) is None
        yield from (schema[key] for key in (("if", "then") if holds else ("else",)) if key in schema)


def _names(extras: Collection[Any]) -> str:
    listed = ", ".join(repr(one) for one in sorted(extras)[:_SHOWN])
    return listed if len(extras) <= _SHOWN else f"{listed} and {len(extras) - _SHOWN} more"


def _is_integer(_checker: Any, value: Any) -> bool:
    """Return whether a value is an integer, of which 3.0 is one. A float beyond 64 bits is an estimate, and is none."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < _MOST_INTEGER
    return isinstance(value, int) and not isinstance(value, bool)


_OWN: dict[str, Keyword] = {
    "additionalProperties": _additional_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
_THEIRS = {name: keyword for name, keyword in Draft202012Validator.VALIDATORS.items() if name != "format"}
_Bounded: Any = create(
    meta_schema=cast("Any", Draft202012Validator.META_SCHEMA),
    validators=cast("Any", {name: _counted(name, keyword) for name, keyword in {**_THEIRS, **_OWN}.items()}),
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
    applicable_validators=cast("Any", _applicable),
)


def _evolve(self: Any, **changes: Any) -> Any:
    # The package would choose another class for a part that has a `$schema`, and that one counts nothing.
    given = {"registry": self._registry, "format_checker": self.format_checker, "_resolver": self._resolver}
    return _Bounded(**{"schema": self.schema, **given, **changes})


_Bounded.evolve = _evolve
