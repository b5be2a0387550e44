"""Arguments of a call as a text that people edit: YAML in which a text of several lines stands as one. Pure.

Used by the page and by the terminal. JSON is read as well, since most people have some at hand.
"""

from __future__ import annotations

import json
from typing import Any, cast

import yaml

from llm_do_temporal.definitions.yaml.lines import parse_yaml
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.json_values import read_json as read_value
from llm_do_temporal.redaction.hidden_characters import hidden_marks, written_out

_MOST_PROBLEMS = 5
_KEPT = "\n\t"
"""Hidden characters that a text of several lines may have as they are."""


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
