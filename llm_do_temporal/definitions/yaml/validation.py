"""Validation of a YAML document against a model of its keys: every mistake, with its line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from llm_do_temporal.definitions.yaml.lines import Document, KeyPath
from llm_do_temporal.definitions.yaml.problems import Problem

M = TypeVar("M", bound=BaseModel)

_WORDS = (
    ("an object", "keys and values"),
    ("a valid array", "a list"),
    ("a valid boolean", "true or false"),
    ("a valid dictionary", "keys and values"),
    ("a valid integer", "a whole number"),
    ("a valid string", "text"),
)
"""Pydantic's words for types, with the words of people who write YAML."""
_KEYS = "A key is followed by a colon and a space, as in `description: …`."
_QUOTES = "In quotes it is text."


def validate(model: type[M], document: Document, *, file: str) -> tuple[M, list[Problem]]:
    """Return the document as a `model`, and its problems.

    Top-level keys with mistakes are left out of the result, so that the others can be checked further.
    """
    if document.value is None:
        return model(), []
    if not isinstance(document.value, dict):
        problem = Problem(file, document.line_of(()), "this is not a list of keys and values", next_step=_KEYS)
        return model(), [problem]
    values = cast("dict[str, Any]", document.value)
    # A known key with nothing after it is a key left out.
    values = {key: value for key, value in values.items() if value is not None or key not in model.model_fields}
    try:
        return _strictly(model, values), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems = _problems(model, document, details, file=file)
    wrong = {detail["loc"][0] for detail in details if detail["loc"]}
    try:
        return _strictly(model, {key: value for key, value in values.items() if key not in wrong}), problems
    except ValidationError:
        return model(), problems


def read_strictly(model: type[M], document: Document, *, file: str) -> tuple[M | None, list[Problem]]:
    """Return the document as a `model`, and its problems; None for a document with any."""
    try:
        return _strictly(model, cast("dict[str, Any]", document.value)), []
    except ValidationError as error:
        return None, _problems(model, document, error.errors(include_url=False), file=file)


def _problems(
    model: type[BaseModel], document: Document, details: Sequence[ErrorDetails], *, file: str
) -> list[Problem]:
    """Return the mistakes that Pydantic found in a document, with their lines."""
    return [_problem(model, document, detail, file) for detail in details]


def _strictly(model: type[M], values: dict[str, Any]) -> M:
    # Strict JSON mode takes lists for tuples and text for enums, but no "5" for 5 and no `true` for 1.
    return model.model_validate_json(json.dumps(values), strict=True)


def _problem(model: type[BaseModel], document: Document, detail: ErrorDetails, file: str) -> Problem:
    path: KeyPath = detail["loc"]
    line = document.line_of(path)
    if detail["type"] == "extra_forbidden":
        message, next_step = _unknown_key(model, path)
        return Problem(file, line, message, next_step=next_step)
    if detail["type"] == "missing":
        return Problem(file, line, f"'{_dotted(path)}' is missing")
    known = path
    while known and known not in document.lines:
        known = known[:-1]
    words = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if detail["type"] == "value_error":
        return Problem(file, line, f"'{_dotted(known)}': {words}" if known else words)
    for theirs, ours in _WORDS:
        words = words.replace(theirs, ours)
    words = words[:1].lower() + words[1:]
    given = detail["input"]
    next_step = _QUOTES if detail["type"] == "string_type" and isinstance(given, bool | int | float) else None
    return Problem(file, line, f"'{_dotted(known)}' {words}, not {_shown(given)}", next_step=next_step)


def _unknown_key(model: type[BaseModel], path: KeyPath) -> tuple[str, str | None]:
    key, around = str(path[-1]), path[:-1]
    kind = "toolset" if around == ("toolsets",) else "key"
    message = f"unknown {kind} '{key}'" + (f" in '{_dotted(around)}'" if around else "")
    allowed = _keys_at(model, around)
    if not allowed:
        return f"{message}; nothing can be set there", None
    close = get_close_matches(key, allowed, n=1)
    return f"{message}; allowed: {', '.join(allowed)}", f"Did you mean '{close[0]}'?" if close else None


def _keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys that may stand at `path` of a document of this model."""
    annotation: Any = model
    for part in path:
        annotation = _inside(annotation, part)
    inner = _model_in(annotation)
    return [] if inner is None else sorted(name for name, field in inner.model_fields.items() if not _is_tag(field))


def _is_tag(field: FieldInfo) -> bool:
    """Return whether a field has one value only, which tells kinds of values apart: people do not write it."""
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


def _inside(annotation: Any, part: str | int) -> Any:
    inner = _model_in(annotation)
    if inner is not None:
        field = inner.model_fields.get(str(part))
        return _extra(inner) if field is None else field.annotation
    return _item(annotation) if isinstance(part, int) else _dict_value(annotation)


def _extra(model: type[BaseModel]) -> Any:
    """Return the type of keys that are names of the author's choice; None for a model without such keys."""
    if model.model_config.get("extra") != "allow":
        return None
    return _dict_value(get_type_hints(model).get("__pydantic_extra__"))


def _dict_value(annotation: Any) -> Any:
    return next((get_args(option)[1] for option in _options(annotation) if get_origin(option) is dict), None)


def _item(annotation: Any) -> Any:
    return next((get_args(option)[0] for option in _options(annotation) if get_origin(option) in (tuple, list)), None)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path)


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, list):
        return "a list"
    text = "true" if value is True else "false" if value is False else str(value)
    return f"'{text[:60]}'"
