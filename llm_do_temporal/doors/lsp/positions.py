"""Positions and places of files as the protocol has them, and as definitions have them.

The protocol counts columns in UTF-16 unless editor and server agree on something else; definitions count characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from llm_do_temporal.definitions.yaml.spans import TextPlace

_UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
"""Bytes of a code unit of each encoding."""


def units(text: str, encoding: str) -> int:
    """Return the number of code units of a text."""
    size = _UNITS.get(encoding, 2)
    name = {1: "utf-8", 2: "utf-16-le", 4: "utf-32-le"}[size]
    return len(text.encode(name, "surrogatepass")) // size


def place_at(lines: Sequence[str], given: types.Position, encoding: str) -> TextPlace:
    """Return the place that an editor means; one beyond a line or the text is its end."""
    line = min(max(given.line, 0), len(lines) - 1)
    if given.line > line:
        return TextPlace(line, len(lines[line]))
    left, column = given.character, 0
    for character in lines[line]:
        left -= units(character, encoding)
        if left < 0:
            break
        column += 1
    return TextPlace(line, column)


def position_of(lines: Sequence[str], place: TextPlace, encoding: str) -> types.Position:
    """Return a place in the editor's units."""
    line = lines[place.line] if place.line < len(lines) else ""
    return types.Position(line=place.line, character=units(line[: place.column], encoding))


def whole_line(lines: Sequence[str], number: int, encoding: str) -> types.Range:
    """Return the range of a line's text, without the space around it; lines count from 0."""
    line = lines[number] if number < len(lines) else ""
    start = len(line) - len(line.lstrip())
    ends = (TextPlace(number, start), TextPlace(number, max(start, len(line.rstrip()))))
    return types.Range(*(position_of(lines, place, encoding) for place in ends))


def path_of(uri: str) -> Path | None:
    """Return the path of a file's address; None for anything else than a file of this machine."""
    path = to_fs_path(uri)
    return None if not path or not path.startswith("/") or path.startswith("//") or "\0" in path else Path(path)


def uri_of(path: Path) -> str:
    """Return the address of a file."""
    return from_fs_path(str(path)) or ""
