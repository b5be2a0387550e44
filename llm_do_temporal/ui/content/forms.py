"""Arguments of a call as people edit them: as text in YAML or JSON, or in a form made from the schema of a tool. Pure.

Used by the page and by the terminal. In a form a list and an object are edited as YAML. Text that a browser's field
would change (control characters, mixed line ends) is edited as JSON, and so is every other value but a plain text, a
number, a yes or no, or a choice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import yaml

from llm_do_temporal.definitions.yaml.documents import parse_yaml
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import read_json as read_value
from llm_do_temporal.redaction.hidden_characters import hidden_marks, written_out

_MOST_PROBLEMS = 5
_KEPT = "\n\t"
"""Hidden characters that a text of several lines may have as they are."""
FieldKind = Literal["text", "number", "boolean", "choice", "json", "yaml"]
PREFIX = "arg."
OMIT_PREFIX = "omit."
MIN_ROWS, MAX_ROWS = 1, 24
_SIMPLE: dict[str, FieldKind] = {"string": "text", "number": "number", "integer": "number", "boolean": "boolean"}


class _Dumper(yaml.SafeDumper):
    """Writer of YAML that keeps line ends, tabs and blanks at the end of a line as they are in a text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = cast("Any", super().analyze_scalar(scalar))
        analysis.allow_block = analysis.allow_block or _is_readable(scalar)
        return analysis


def _text_node(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if not _is_readable(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def editable_yaml(value: object) -> str:
    """Return a value as YAML that means the same when it is read; hidden characters are written as escapes.

    JSON where YAML could not say the same.
    """
    text = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1 << 30)
    # What hides stands between double quotes only.
    text = "".join(written_out(char) if not _is_kept(char, hidden) else char for char, hidden in hidden_marks(text))
    try:
        same = json.dumps(read_yaml(text)) == json.dumps(value)
    except ValueError:
        same = False
    return text if same else editable_json(value)


def editable_json(value: object) -> str:
    """Return JSON to be edited by a person: hidden characters are written as escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(_escaped(char) if hidden and char != "\n" else char for char, hidden in hidden_marks(text))


def read_arguments(text: str) -> dict[str, Any]:
    """Return arguments that were written as YAML or JSON. Raises UsageError, which names the line."""
    try:
        value = read_yaml(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not isinstance(value, dict):
        raise UsageError("the arguments are names with values, like `path: /a.txt`")
    return cast("dict[str, Any]", value)


def read_object(text: str) -> dict[str, Any]:
    """Return arguments that were written as JSON. Raises UsageError."""
    try:
        value: Any = read_json(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not isinstance(value, dict):
        raise UsageError('the arguments are an object, like {"path": "/a.txt"}')
    return cast("dict[str, Any]", value)


def read_yaml(text: str) -> Any:
    """Return a value that was written as YAML or JSON. Raises ValueError, which names the line."""
    is_json = text.lstrip()[:1] in ("{", "[")
    try:
        # JSON as such first: to YAML, `1e5` in it were a text.
        return read_json(text) if is_json else _value(text)
    except ValueError:
        if not is_json:
            raise
        return _value(text)


def read_json(text: str) -> Any:
    """Return a value that was written as JSON. Raises ValueError."""
    try:
        return read_value(text)
    except ValueError as error:
        raise ValueError(f"that is not JSON: {error}") from error


def _value(text: str) -> Any:
    document, problems = parse_yaml(text, file="arguments")
    if problems:
        told = [f"line {one.line}: {one.message}" if one.line else one.message for one in problems[:_MOST_PROBLEMS]]
        raise ValueError("; ".join(told))
    return document.value


def _is_readable(text: str) -> bool:
    """Whether a text can stand as it is, and means the same to whoever reads it."""
    return all(_is_kept(char, hidden) for char, hidden in hidden_marks(text))


def _is_kept(char: str, hidden: bool) -> bool:
    return not hidden or char in _KEPT


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if ord(char) > 0x7E else f"\\u{ord(char):04x}"


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
        fields.append(replace(field, value=text, omitted=omitted, problem=problem))
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


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
