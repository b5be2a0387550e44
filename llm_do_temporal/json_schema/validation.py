"""Validation of values against schemas, and of schemas against the rules for schemas."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match  # pyright: ignore[reportUnknownVariableType]
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
from referencing.exceptions import Unresolvable

from llm_do_temporal.json_schema.keywords import validator_of
from llm_do_temporal.json_schema.patterns import Patterns
from llm_do_temporal.json_schema.shapes import Path, is_too_large_written_out, patterns_of, reference_problem
from llm_do_temporal.json_schema.steps import MAX_STEPS, Steps, TooMuchWork, UnusableSchema, metered, weigh

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
        validator = validator_of(schema, patterns)
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
