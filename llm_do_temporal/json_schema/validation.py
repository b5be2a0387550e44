"""Validation of values against schemas, and of schemas against the rules for schemas.

Keywords are those of the `jsonschema` package, each with its work counted. Keywords that would run Python's regular
expressions, or compare everything with everything, are done here. Nothing is fetched, whatever a reference names, and a
`$schema` inside a schema chooses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, TypeAlias, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import (
    ValidationError,
    best_match,  # pyright: ignore[reportUnknownVariableType]
)
from jsonschema.validators import create  # pyright: ignore[reportUnknownVariableType]
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from llm_do_temporal.json_schema.patterns import (
    MAX_STEPS,
    Patterns,
    Steps,
    TooMuchWork,
    UnusableSchema,
    meter,
    metered,
    weigh,
)

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
    named = ((path, key, part.get(key)) for path, part in parts_of(schema) for key in _REFERENCES)
    references = [(path, key, reference) for path, key, reference in named if isinstance(reference, str)]
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
                target: Any = schema
                for step in reference.removeprefix("#").split("/")[1:]:
                    name = step.replace("~1", "/").replace("~0", "~")
                    target = cast("dict[str, Any]", target).get(name) if isinstance(target, dict) else None
                pending.append((target, within | {reference}))
            # What is only named counts where it is named.
            skipped = ("$defs", "definitions") if node is schema else ()
            pending.extend((value, within) for key, value in known.items() if key not in skipped)
    return False


Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]
_SHOWN = 10
_FOLLOWED = ("$ref", "$dynamicRef")
_REFERENCE_STEPS = 5
_SEARCH_STEPS = 15
_ERROR_STEPS = 3
_MOST_INTEGER = 2**63


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
    if name in _FOLLOWED:
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
    # The one thing that is handed on to the validators of all parts of a schema; formats are not checked.
    return cast("Patterns", validator.format_checker).found(pattern, text, meter().steps)


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
        meter().steps.spend(len(known) // 8)
        allows = f"; allowed are {_names(known)}" if known else ""
        yield ValidationError(f"Additional properties are not allowed ({_unexpected(extras)}){allows}")


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


def _unevaluated(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Judge the names, or the positions, of a value that no part of the schema judges."""
    is_object = isinstance(instance, dict)
    seen = _evaluated(validator, instance, schema)
    values = cast("dict[Any, Any]", instance) if is_object else dict(enumerate(cast("list[Any]", instance)))
    extras = [one for one in values if one not in seen and next(validator.descend(values[one], allowed), None)]
    if extras:
        what, at = ("properties", "") if is_object else ("items", "at ")
        yield ValidationError(f"Unevaluated {what} are not allowed ({at}{_unexpected(extras)})")


def _unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        yield from _unevaluated(validator, allowed, instance, schema)


def _unevaluated_items(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, list):
        yield from _unevaluated(validator, allowed, instance, schema)


def _own(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Yield the names, or the positions, that the schema judges by itself."""
    if isinstance(instance, dict):
        names = cast("dict[str, Any]", instance)
        if "additionalProperties" in schema or "unevaluatedProperties" in schema:
            yield from names
        yield from (name for name in names if name in schema.get("properties", {}))
        for pattern in schema.get("patternProperties", {}):
            yield from (name for name in names if _found(validator, pattern, name))
        return
    if "items" in schema or "unevaluatedItems" in schema:
        yield from range(len(instance))
    yield from range(min(len(instance), len(schema.get("prefixItems", []))))
    if "contains" in schema:
        fitting = validator.evolve(schema=schema["contains"])
        yield from (place for place, item in enumerate(instance) if fitting.is_valid(item))


def _evaluated(validator: Any, instance: Any, schema: Any, *, is_top: bool = True) -> set[Any]:
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
        seen = set(_own(validator, instance, known))
        for key in (key for key in _FOLLOWED if key in known):
            reference = known[key]
            now.steps.spend(_listed(key, reference))
            resolved = validator._resolver.lookup(reference)
            inner = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            seen |= _evaluated(inner, instance, resolved.contents, is_top=False)
        for part in _parts_in_force(validator, instance, known):
            seen |= _evaluated(validator, instance, part, is_top=False)
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


def _unexpected(extras: Collection[Any]) -> str:
    return f"{_names(extras)} {'was' if len(extras) == 1 else 'were'} unexpected"


def _is_integer(_checker: Any, value: Any) -> bool:
    """Return whether a value is an integer, of which 3.0 is one. A float beyond 64 bits is an estimate, and is none."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < _MOST_INTEGER
    return isinstance(value, int) and not isinstance(value, bool)


_KEYWORDS: dict[str, Keyword] = {
    **{name: cast("Keyword", keyword) for name, keyword in Draft202012Validator.VALIDATORS.items() if name != "format"},
    "additionalProperties": _additional_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
_Bounded: Any = create(
    meta_schema=cast("Any", Draft202012Validator.META_SCHEMA),
    validators=cast("Any", {name: _counted(name, keyword) for name, keyword in _KEYWORDS.items()}),
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
    applicable_validators=cast("Any", _applicable),
)


def _evolve(self: Any, **changes: Any) -> Any:
    # The package would choose another class for a part that has a `$schema`, and that one counts nothing.
    given = {"registry": self._registry, "format_checker": self.format_checker, "_resolver": self._resolver}
    return _Bounded(**{"schema": self.schema, **given, **changes})


_Bounded.evolve = _evolve


_MAX_PROBLEMS = 100
_MAX_MESSAGE_CHARS = 300
_MAX_SCHEMA_CHARS = 1024 * 1024
_DRAFT = "https://json-schema.org/draft/2020-12/"
_CHECK_STEPS = 3 * MAX_STEPS
"""Steps for the check of a schema, which is done when it is loaded: seldom, and never in workflow code."""


@dataclass(frozen=True)
class _Compiled:
    schema: Any
    validator: Any
    patterns: Patterns
    weights: dict[int, int]


def schema_problems(schema: Mapping[str, Any], value: Any, steps: Steps | None = None) -> list[str]:
    """Return the problems of `value`, a line each, with their places; empty for a value that fits.

    A schema that cannot be used and a value that takes too much work are problems as well. `steps` are shared by
    several validations; None: as many as a single one may take.
    """
    try:
        return find_problems(schema, value, steps)
    except UnusableSchema as error:
        return [f"nothing fits, its schema cannot be used: {error}"]


def find_problems(schema: Mapping[str, Any], value: Any, steps: Steps | None = None) -> list[str]:
    """Return the problems of `value` like `schema_problems`, but raise UnusableSchema for an unusable schema."""
    try:
        return described(find_errors(schema, value, steps))
    except TooMuchWork as error:
        return [str(error)]


def find_errors(schema: Mapping[str, Any], value: Any, steps: Steps | None) -> list[ValidationError]:
    """Return the first 100 errors of a value. Raises UnusableSchema, TooMuchWork."""
    allowed = Steps() if steps is None else steps
    allowed.spend(1)
    compiled = _compiled(schema)
    with _bounded(value, compiled, allowed):
        return list(islice(compiled.validator.iter_errors(value), _MAX_PROBLEMS))


def described(errors: Iterable[ValidationError]) -> list[str]:
    """Return errors as problems, a line each, in the order of their places."""
    ordered = sorted(errors, key=lambda error: [str(part) for part in error.absolute_path])
    return [f"{_place(error.absolute_path)}{_shortened(error.message)}" for error in ordered]


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """Return the first problem of a JSON Schema itself, or None."""
    return next((message for _path, message in find_schema_problems(schema)), None)


def find_schema_problems(schema: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Return the problems of a JSON Schema itself, with their paths. It is read as draft 2020-12 in any case."""
    try:
        compiled = _compiled(schema)
        meta = _meta_schema()
        with _bounded(compiled.schema, meta, Steps(_CHECK_STEPS)):
            errors: list[ValidationError] = list(islice(meta.validator.iter_errors(compiled.schema), _MAX_PROBLEMS))
        if errors:
            return [_described(error) for error in errors]
        wrong = reference_problem(compiled.schema)
    except TooMuchWork:
        return [((), "it is too large, or nested too deeply, to be checked")]
    except UnusableSchema as error:
        return [((), str(error))]
    found = [] if wrong is None else [wrong]
    for path, pattern in patterns_of(compiled.schema):
        problem = compiled.patterns.problem(pattern)
        found += [] if problem is None else [(path, problem)]
    if not found and is_too_large_written_out(compiled.schema):
        found.append(((), "its references name each other so often that it is too large once they are written out"))
    return [(path, f"{_at(path)}{message}") for path, message in found]


def _compiled(schema: Any) -> _Compiled:
    """Return the schema, ready to be used. Raises UnusableSchema, TooMuchWork."""
    try:
        text = json.dumps(schema, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableSchema(f"it is no JSON: {error}") from error
    if len(text) > _MAX_SCHEMA_CHARS:
        raise UnusableSchema(f"it has {len(text):,} characters; at most {_MAX_SCHEMA_CHARS:,} are accepted")
    return _compile(text)


@lru_cache(maxsize=1)
def _meta_schema() -> _Compiled:
    """Return the schema of schemas, whose parts come with a package."""
    parts = [REGISTRY.contents(uri) for uri in sorted(REGISTRY) if uri.startswith(_DRAFT)]
    patterns = Patterns(one for part in parts for _path, one in patterns_of(part))
    # Its names are found without a search, and it is no stranger's.
    return replace(_made(Draft202012Validator.META_SCHEMA, patterns), weights={})


@lru_cache(maxsize=32)
def _compile(text: str) -> _Compiled:
    # A copy of its own, whose parts keep their identities as long as it is kept.
    schema = json.loads(text)
    return _made(schema, Patterns(pattern for _path, pattern in patterns_of(schema)))


def _made(schema: Any, patterns: Patterns) -> _Compiled:
    try:
        # Any other registry, no one at all included, would fetch what a reference names.
        validator = _Bounded(schema, registry=Registry[Any](), format_checker=cast("Any", patterns))
    except Exception as error:
        raise UnusableSchema(f"{type(error).__name__}: {str(error)[:200]}") from error
    return _Compiled(schema, validator, patterns, weigh(schema))


@contextmanager
def _bounded(value: Any, compiled: _Compiled, steps: Steps) -> Generator[None]:
    """Meter a validation, and give its errors a message. Raises UnusableSchema, TooMuchWork."""
    try:
        with metered(value, steps, compiled.weights):
            yield
    except (TooMuchWork, UnusableSchema):
        raise
    except Unresolvable as error:
        reference = ascii(str(getattr(error, "ref", "")))[1:-1][:120]
        raise UnusableSchema(f"the reference '{reference}' leads nowhere in it, and nothing is fetched") from error
    except RecursionError as error:
        raise TooMuchWork("its schema or the value is nested too deeply") from error
    except Exception as error:
        raise UnusableSchema(f"{type(error).__name__}: {str(error)[:200]}") from error


def _described(error: Any) -> tuple[Path, str]:
    closest = cast("ValidationError", best_match([error]) or error)
    # A wrong `type` breaks every alternative alike; the one that lists the types is the one that helps.
    closest = next((inner for inner in closest.context or () if inner.validator == "enum"), closest)
    path = tuple(closest.absolute_path)
    return path, f"{_at(path)}{_shortened(closest.message)}"


def _at(path: Path) -> str:
    return f"at '{'.'.join(map(str, path))[:200]}': " if path else ""


def _place(path: Any) -> str:
    parts = [str(part) for part in path]
    return f"{_shortened('.'.join(parts))}: " if parts else ""


def _shortened(text: str) -> str:
    """Return a text of at most 300 characters: a message begins with the value and ends with what is wrong with it."""
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:140]} … {text[-157:]}"


def pattern_found(pattern: str, text: str) -> bool:
    """Return whether a regular expression matches any part of the text. Raises UnusableSchema and TooMuchWork."""
    return _compiled_alone(pattern).found(pattern, text, Steps())


def pattern_problem(pattern: str) -> str | None:
    """Return why a regular expression cannot be used; None for a usable one."""
    return _compiled_alone(pattern).problem(pattern)


@lru_cache(maxsize=64)
def _compiled_alone(pattern: str) -> Patterns:
    return Patterns([pattern])
