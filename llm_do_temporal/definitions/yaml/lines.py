"""YAML as plain JSON values, with the line of every key.

Stricter than a YAML loader: no tags, no duplicate or merge keys, no dates, a limit on the size that aliases may expand
to. `yes`, `no`, `on`, `off`, `12:30`, `1_000` and `01234` are texts. All problems of a document are collected; the
value leaves out the invalid parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import yaml

from llm_do_temporal.definitions.yaml.advice import advice_on
from llm_do_temporal.definitions.yaml.problems import Problem

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_VALUES = 20_000
"""Values in a document. Aliases make a short text describe a huge value; no definition written by hand comes near this.
"""
MAX_DEPTH = 100
_YAML = "tag:yaml.org,2002:"
_MERGE = _YAML + "merge"
_FORMER_BOOLEANS = frozenset({"yes", "no", "on", "off"})
"""Words that YAML 1.1 takes for true and false. Editors, and files with choices such as `[yes, no]`, mean texts."""
_FORMER_NUMBER = re.compile(r"[:_]|^[-+]?0[0-9b]")
"""Beginnings and characters of what YAML 1.1 alone takes for a number."""
# Dates and `=` have tags of their own in YAML; here they are text like any other.
_TEXT_TAGS = frozenset({_YAML + "str", _YAML + "timestamp", _YAML + "value"})


@dataclass(frozen=True)
class Document:
    """YAML document that was read."""

    value: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    """The line of each key and of each list item."""
    text_lines: Mapping[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    """The line on which the text of each scalar begins."""

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of `path`, or of the innermost key around it that has a line; None where none has."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return self.lines.get(())


class _Unbuildable(Exception):
    def __init__(self, message: str, node: yaml.Node) -> None:
        super().__init__(message)
        self.line = _line(node)


def parse_yaml(text: str, *, file: str) -> tuple[Document, list[Problem]]:
    """Return the single document in `text` (value None for an empty text) and its problems; `file` is for these."""
    builder = _Builder(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = None if node is None else builder.build(node, ())
    except yaml.YAMLError as error:
        return Document(None), [_syntax_problem(error, text, file)]
    except _Unbuildable as error:
        return Document(None), [Problem(file, error.line, str(error))]
    except RecursionError:
        return Document(None), [Problem(file, None, "nested too deeply")]
    return Document(value, builder.lines, builder.text_lines), builder.problems


class _Builder:
    """Builder of plain values from nodes, which remembers lines and problems."""

    def __init__(self, file: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.text_lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._file = file
        self._values = 0
        self._scalars = yaml.constructor.SafeConstructor()

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _Unbuildable(f"holds more than {MAX_VALUES} values once its aliases are written out", node)
        if len(path) > MAX_DEPTH:
            raise _Unbuildable(f"nested more than {MAX_DEPTH} levels deep, or an alias refers to itself", node)
        self.lines.setdefault(path, _line(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _YAML + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _YAML + "seq":
            return [self.build(item, (*path, place)) for place, item in enumerate(_items(node))]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._wrong_tag(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in _pairs(node):
            if not isinstance(key_node, yaml.ScalarNode) or not _is_text(key_node):
                self._report(key_node, "a key must be plain text")
                continue
            if key_node.tag == _MERGE:
                self._report(key_node, "merge keys ('<<') are not supported; write the keys out")
                continue
            key = str(key_node.value)
            if key in result:
                self._report(key_node, f"duplicate key '{key}'; it already stands in line {self.lines[(*path, key)]}")
                continue
            self.lines[(*path, key)] = _line(key_node)
            result[key] = self.build(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        # The text of a block scalar begins below its `|` or `>`.
        self.text_lines[path] = _line(node) + (1 if node.style in ("|", ">") else 0)
        if not _is_text(node):
            return self._report(node, "it contains a character that is not text")
        if node.tag in _TEXT_TAGS:
            return str(node.value)
        try:
            return self._plain_value(node)
        except (ValueError, KeyError):
            self._report(node, f"'{str(node.value)[:60]}' is not a valid {_short(node.tag).strip('!')}")
            return None

    def _plain_value(self, node: yaml.ScalarNode) -> Any:
        if _is_text_since_1_2(str(node.value)):
            return str(node.value)
        match node.tag.removeprefix(_YAML):
            case "null":
                return None
            case "bool":
                return self._scalars.construct_yaml_bool(node)
            case "int":
                return self._scalars.construct_yaml_int(node)
            case "float":
                number = float(self._scalars.construct_yaml_float(node))
                if not math.isfinite(number):
                    raise ValueError(node.value)
                return number
            case _:
                return self._wrong_tag(node)

    def _wrong_tag(self, node: yaml.Node) -> None:
        self._report(node, f"the YAML tag '{_short(node.tag)}' is not allowed; write plain values")

    def _report(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self._file, _line(node), message))


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    return cast("list[tuple[yaml.Node, yaml.Node]]", node.value)


def _items(node: yaml.SequenceNode) -> list[yaml.Node]:
    return cast("list[yaml.Node]", node.value)


def _is_text(node: yaml.ScalarNode) -> bool:
    """Return whether the value can be written as UTF-8; an escape such as `\\ud800` makes a text that cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in str(node.value))


def _is_text_since_1_2(value: str) -> bool:
    """Return whether a plain value is a text in YAML 1.2, and something else in 1.1: `no`, `12:30`, `1_000`, `0b11`.

    `01234` is a text, too: YAML 1.1 reads it as 668, YAML 1.2 as 1234, and people mean a code or a postcode.
    """
    return value.lower() in _FORMER_BOOLEANS or bool(_FORMER_NUMBER.search(value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_YAML)}" if tag.startswith(_YAML) else tag


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        words = ", ".join(str(part) for part in (error.context, error.problem) if part)
        found = int(error.problem_mark.line) + 1
        start = found if error.context_mark is None else int(error.context_mark.line) + 1
        # That a line has no colon is found on a later one.
        line = start if str(error.problem).startswith("could not find") else found
        return Problem(file, line, f"not valid YAML: {words}", next_step=advice_on(words, start))
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, int(error.position)) + 1
        return Problem(file, line, "not valid YAML: it contains a character that is not text")
    return Problem(file, None, "not valid YAML")
