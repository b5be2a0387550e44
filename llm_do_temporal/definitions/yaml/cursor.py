"""Place at which somebody writes YAML: the keys around it, also where the text is no valid YAML yet.

Only the lines count that the place is inside of, by their indentation: a half-written neighbour does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_do_temporal.definitions.yaml.lines import KeyPath
from llm_do_temporal.definitions.yaml.spans import TextPlace, walk

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
        if _MARK in span.text and span.role == role and not span.is_block and span.text == _MARK:
            return span.path[:-1] if role == "key" else span.path
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(line: str) -> bool:
    return line.lstrip().startswith("- ") or line.strip() == "-"
