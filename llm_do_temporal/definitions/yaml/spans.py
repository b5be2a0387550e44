"""Places of keys and texts in YAML, also in a text that is broken farther down: editors ask while people write.

Reads the parser's events one by one, so nothing is built, aliases are not followed, and what stands above a mistake is
known in spite of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import yaml

from llm_do_temporal.definitions.yaml.lines import MAX_DEPTH, MAX_VALUES, KeyPath

Role = Literal["key", "value"]


@dataclass(frozen=True)
class TextPlace:
    """Place between two characters; both numbers count from 0, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Span:
    """Key, or single value, and where its text stands."""

    path: KeyPath
    """Path of the key itself, or of the value."""
    role: Role
    text: str
    start: int
    end: int
    """Offsets of its text; with the quotes, where it has any."""
    exact: tuple[int, int] | None
    """Offsets between which the text stands letter by letter; None where it is written in another way."""
    is_block: bool = False
    """Whether it is written below `|` or `>`."""

    def holds(self, offset: int) -> bool:
        """Return whether a place is within, or at either end."""
        return self.start <= offset <= self.end


class Offsets:
    """Offsets in a text, as lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._size = len(text)

    def spot(self, offset: int) -> TextPlace:
        """Return the place of an offset."""
        line = bisect_right(self._starts, offset) - 1
        return TextPlace(line, offset - self._starts[line])

    def offset(self, spot: TextPlace) -> int:
        """Return the offset of a place; of one below the text, its end."""
        return self._size if spot.line >= len(self._starts) else min(self._starts[spot.line] + spot.column, self._size)


def spans(text: str) -> list[Span]:
    """Return the keys and single values of a document, as far down as it can be read."""
    return list(walk(text))


def walk(text: str) -> Iterator[Span]:
    """Yield the keys and single values of a document in order; ends at a mistake, and where it is too deep or long."""
    path = _Path()
    try:
        for count, event in enumerate(cast("Iterator[Any]", yaml.parse(text, Loader=yaml.SafeLoader))):
            if count > MAX_VALUES or path.depth > MAX_DEPTH:
                return
            if isinstance(event, yaml.ScalarEvent):
                yield _span(event, text, *path.at(str(event.value)))
                path.passed(str(event.value))
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                path.enter(is_list=isinstance(event, yaml.SequenceStartEvent))
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                path.leave()
            elif isinstance(event, yaml.AliasEvent):
                path.passed("")
    except (yaml.YAMLError, ValueError):
        return


@dataclass
class _Level:
    """Mapping or list that is open; `key` is None where a mapping's next key is awaited."""

    is_list: bool
    key: str | None = None
    number: int = 0


class _Path:
    """Place of the parser in a document."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []

    @property
    def depth(self) -> int:
        return len(self._levels)

    def at(self, text: str) -> tuple[KeyPath, Role]:
        """Return path and role of a text that comes next."""
        around = tuple(part for level in self._levels if (part := _part(level)) is not None)
        awaits_key = bool(self._levels) and _part(self._levels[-1]) is None
        return ((*around, text), "key") if awaits_key else (around, "value")

    def passed(self, text: str) -> None:
        """Go on behind a key, or behind a value."""
        if not self._levels:
            return
        level = self._levels[-1]
        if level.is_list:
            level.number += 1
        else:
            level.key = text if level.key is None else None

    def enter(self, *, is_list: bool) -> None:
        if self._levels and _part(self._levels[-1]) is None:
            self._levels[-1].key = ""  # keys and values as a key: no definition has any
        self._levels.append(_Level(is_list))

    def leave(self) -> None:
        self._levels.pop()
        self.passed("")


def _part(level: _Level) -> str | int | None:
    return level.number if level.is_list else level.key


def _span(event: yaml.ScalarEvent, text: str, path: KeyPath, role: Role) -> Span:
    value = str(event.value)
    start, end = (int(cast("yaml.Mark", mark).index) for mark in (event.start_mark, event.end_mark))
    written = text[start:end]
    is_block = event.style in ("|", ">")
    if is_block:
        return Span(path, role, value, start, end, None, is_block=True)
    # An anchor, and a tag, stand before the text.
    for quote in ("", "'", '"'):
        whole = f"{quote}{value}{quote}"
        if value and written.endswith(whole):
            begin = end - len(whole)
            return Span(path, role, value, begin, end, (begin + len(quote), end - len(quote)))
    return Span(path, role, value, start, end, None)
