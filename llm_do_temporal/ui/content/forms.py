"""A form for a tool's arguments, made from its JSON Schema, and the arguments that a sent form means. Pure.

A list and an object are edited as YAML. Text that a browser's field would change (control characters, mixed line ends)
is edited as JSON, and so is every other value but a plain text, a number, a yes or no, or a choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from llm_do_temporal.redaction.hidden_characters import hidden_marks
from llm_do_temporal.ui.content.arguments import editable_json, editable_yaml, read_json, read_yaml

FieldKind = Literal["text", "number", "boolean", "choice", "json", "yaml"]
PREFIX = "arg."
OMIT_PREFIX = "omit."
MIN_ROWS, MAX_ROWS = 1, 24
_SIMPLE: dict[str, FieldKind] = {"string": "text", "number": "number", "integer": "number", "boolean": "boolean"}


@dataclass(frozen=True)
class Field:
    """Argument in the form."""

    name: str
    kind: FieldKind
    value: str
    """Content of the field: text, JSON for `choice` and `json`, or YAML."""
    description: str = ""
    optional: bool = False
    omitted: bool = False
    """Whether the argument is left out of the call."""
    choices: tuple[str, ...] = ()
    """Values to choose from, as JSON; empty for other kinds."""
    problem: str = ""

    @property
    def rows(self) -> int:
        """Number of lines that the field shows."""
        return min(max(self.value.count("\n") + 1 + len(self.value) // 100, MIN_ROWS), MAX_ROWS)


def fields_of(schema: Mapping[str, Any], args: Mapping[str, Any]) -> list[Field]:
    """Return the form for `args`: arguments of the schema first, then others that the call has all the same."""
    properties = _object(schema.get("properties"))
    required = cast("list[Any]", schema.get("required") or [])
    names = [*properties, *(name for name in args if name not in properties)]
    return [_field(name, _object(properties.get(name)), args, optional=name not in required) for name in names]


def read_fields(
    schema: Mapping[str, Any], args: Mapping[str, Any], form: Mapping[str, str]
) -> tuple[dict[str, Any], list[Field]]:
    """Return the arguments of a sent form that `fields_of` made from `schema` and `args`, and its fields as sent.

    What the form has besides was added to the text before; it is read as YAML. A field that cannot be read has a
    `problem` and is missing from the arguments.
    """
    found: dict[str, Any] = {}
    fields: list[Field] = []
    sent = [name.removeprefix(PREFIX) for name in form if name.startswith(PREFIX)]
    known = _object(schema.get("properties"))
    added: dict[str, Any] = {name: [] for name in sent if name not in known and name not in args}
    for field in fields_of(schema, {**args, **added}):
        text = form.get(PREFIX + field.name, "").replace("\r\n", "\n")
        omitted = field.optional and OMIT_PREFIX + field.name in form
        problem = ""
        if not omitted:
            try:
                found[field.name] = _read(field, text, args.get(field.name))
            except ValueError as error:
                problem = str(error)
        fields.append(_sent(field, text, omitted=omitted, problem=problem))
    return found, fields


def with_problems(fields: Sequence[Field], problems: Sequence[str]) -> tuple[list[Field], list[str]]:
    """Return the fields, each with the first of the problems, `name: text` or `name.place: text`, that is about it.

    All problems are returned, too.
    """
    about = {
        field.name: [one for one in problems if re.match(rf"{re.escape(field.name)}[:.]", one)] for field in fields
    }
    shown = [replace(field, problem=about[field.name][0]) if about[field.name] else field for field in fields]
    return shown, list(problems)


def _field(name: str, schema: Mapping[str, Any], args: Mapping[str, Any], *, optional: bool) -> Field:
    given = name in args
    value = args[name] if given else schema.get("default")
    kind, choices = _kind(schema, value, given=given or "default" in schema)
    if kind in ("text", "number"):
        text = "" if value is None else str(value) if kind == "text" else json.dumps(value)
    elif kind == "yaml" and given:
        text = editable_yaml(value)
    else:
        text = "" if value is None and not given else editable_json(value)
    return Field(
        name=name,
        kind=kind,
        value=text,
        description=str(schema.get("description") or ""),
        optional=optional,
        omitted=optional and not given,
        choices=choices,
    )


def _kind(schema: Mapping[str, Any], value: Any, *, given: bool) -> tuple[FieldKind, tuple[str, ...]]:
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and (not given or value in choices):
        return "choice", tuple(editable_json(choice) for choice in cast("list[Any]", choices))
    declared = schema.get("type")
    kind = _SIMPLE.get(declared) if isinstance(declared, str) else None
    if isinstance(value, list | dict) or (not given and declared in ("array", "object")):
        return "yaml", ()
    if kind is None or (given and not _fits(kind, value)):
        return "json", ()
    return kind, ()


def _fits(kind: FieldKind, value: Any) -> bool:
    """Whether a plain field can hold the value as it is."""
    if kind == "text":
        return isinstance(value, str) and keeps_text(value)
    return isinstance(value, bool) if kind == "boolean" else _is_number(value)


def keeps_text(text: str) -> bool:
    """Return whether a field that shows the text sends it back as it is: it has nothing hidden, and one line end."""
    return not any(hidden and char not in "\n\t" for char, hidden in hidden_marks(_plain_ends(text)))


def with_ends_of(text: str, before: str) -> str:
    """Return a text from a field with the line ends that the text before had."""
    return text.replace("\n", "\r\n") if _has_windows_ends(before) else text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain_ends(text: str) -> str:
    """Return the text with plain line ends if all are of Windows; a form can keep either kind, but not both."""
    return text.replace("\r\n", "\n") if _has_windows_ends(text) else text


def _has_windows_ends(text: str) -> bool:
    return "\r\n" in text and "\n" not in text.replace("\r\n", "")


def _read(field: Field, text: str, before: Any) -> Any:
    """Return the value of a field. Raises ValueError with the reason why it has none."""
    if field.kind == "text":
        return with_ends_of(text, before) if isinstance(before, str) else text
    if not text.strip():
        raise ValueError("a value is needed here")
    value = read_yaml(text) if field.kind == "yaml" else read_json(text)
    if field.kind == "number" and not _is_number(value):
        raise ValueError("this is not a number")
    return value


def _sent(field: Field, text: str, *, omitted: bool, problem: str) -> Field:
    return Field(
        field.name, field.kind, text, field.description, field.optional, omitted, field.choices, problem=problem
    )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
