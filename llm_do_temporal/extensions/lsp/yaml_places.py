"""Places of keys and values in texts of YAML that people write, known also in a text that is broken farther down."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, cast

import yaml

from llm_do_temporal.definitions.yaml.documents import MAX_DEPTH, MAX_VALUES, KeyPath

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
    try:
        events = _events(text)
        for event in events:
            yield from _spans_of(event, events, text, (), "value")
    except (yaml.YAMLError, ValueError):
        return


def _events(text: str) -> Iterator[Any]:
    """Yield the parser's events one by one: nothing is built, and aliases are not followed."""
    for number, event in enumerate(cast("Iterator[Any]", yaml.parse(text, Loader=yaml.SafeLoader))):
        if number > MAX_VALUES:
            raise ValueError("too long")
        yield event


def _spans_of(event: Any, events: Iterator[Any], text: str, path: KeyPath, role: Role) -> Iterator[Span]:
    """Yield the keys and single values of the value that begins with an event, and take its other events."""
    if len(path) > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(event, yaml.ScalarEvent):
        yield _span(event, text, path, role)
    elif isinstance(event, yaml.SequenceStartEvent):
        for number in count():
            item = next(events)
            if isinstance(item, yaml.SequenceEndEvent):
                return
            yield from _spans_of(item, events, text, (*path, number), "value")
    elif isinstance(event, yaml.MappingStartEvent):
        while not isinstance(key := next(events), yaml.MappingEndEvent):
            # Keys and values as a key: no definition has any.
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarEvent) else "")
            yield from _spans_of(key, events, text, inner, "key")
            yield from _spans_of(next(events), events, text, inner, "value")


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


_WORD = re.compile(r"[^\s\[\]{},\"'#]*$")
_REST = re.compile(r"[^\s\[\]{},\"'#:]*")
_MARK = "␟"
"""Sign in the place of the word; the sign for a separator, which no key has."""
_MAX_LINES = 2_000
"""Lines above the place that are looked at."""


@dataclass(frozen=True)
class Cursor:
    """Place in YAML that is being written."""

    around: KeyPath | None
    """Path of the keys and values of which a key may stand here; None where none may."""
    value: KeyPath | None
    """Path of the value that may stand here; None where none may."""
    word: str
    """Beginning of the word that is there already."""
    start: int
    end: int
    """Columns of the whole word, in characters."""
    has_colon: bool
    """Whether a colon comes behind the word."""


def cursor_at(lines: Sequence[str], spot: TextPlace) -> Cursor | None:
    """Return what may be written at a place; None where it is a comment, a long text, or cannot be told."""
    line = lines[spot.line] if spot.line < len(lines) else ""
    before, behind = line[: spot.column], line[spot.column :]
    found = _WORD.search(before)
    word = found.group() if found else ""
    start = len(before) - len(word)
    rest = _REST.match(behind)
    end = spot.column + (len(rest.group()) if rest else 0)
    above = _around(lines, spot.line, before)
    key = _path_of([*above, f"{before[:start]}{_MARK}: "], "key")
    value = _path_of([*above, f"{before[:start]}{_MARK}"], "value")
    if key is None and value is None:
        return None
    return Cursor(key, value, word, start, end, line[end:].lstrip().startswith(":"))


def _around(lines: Sequence[str], number: int, before: str) -> list[str]:
    """Return the lines that the line is inside of, from the outermost."""
    limit, is_item = _indent(before) if before.strip() else len(before), _is_item(before)
    found: list[str] = []
    for line in reversed(lines[max(number - _MAX_LINES, 0) : number]):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        here = _indent(line)
        # A list may stand as far left as its key.
        if here < limit or (here == limit and is_item and not _is_item(line)):
            found.append(line)
            limit, is_item = here, _is_item(line)
            if here == 0 and not is_item:
                break
    return found[::-1]


def _path_of(lines: Sequence[str], role: str) -> KeyPath | None:
    for span in walk("\n".join(lines)):
        if span.text == _MARK and span.role == role and not span.is_block:
            return span.path[:-1] if role == "key" else span.path
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(line: str) -> bool:
    return line.lstrip().startswith("- ") or line.strip() == "-"
