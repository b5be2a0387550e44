"""Open texts of one editor by the real paths of their files, and positions as the protocol has them.

The protocol counts columns in UTF-16 unless editor and server agree on something else; definitions count characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from llm_do_temporal.extensions.lsp.edited_file import EditedFile, edited_file
from llm_do_temporal.extensions.lsp.yaml_places import TextPlace

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


@dataclass(frozen=True)
class OpenFile:
    """File that is open in the editor."""

    uri: str
    """Address by which the editor knows it."""
    version: int | None
    source: EditedFile


class Buffers:
    """Files of definitions that are open."""

    def __init__(self) -> None:
        self._open: dict[str, OpenFile] = {}

    def put(self, uri: str, version: int | None, text: str) -> OpenFile | None:
        """Keep a text; return its file, or None for a file that defines nothing."""
        self._open.pop(uri, None)
        path = path_of(uri)
        source = None if path is None else edited_file(path, text)
        if source is None:
            return None
        self._open[uri] = OpenFile(uri, version, source)
        return self._open[uri]

    def drop(self, uri: str) -> OpenFile | None:
        """Forget a text that was closed, and return its file."""
        return self._open.pop(uri, None)

    def get(self, uri: str) -> OpenFile | None:
        """Return the file that is open at an address."""
        return self._open.get(uri)

    def held(self) -> dict[Path, EditedFile]:
        """Return all open texts by their real paths."""
        return {one.source.path: one.source for one in self._open.values()}

    def below(self, root: Path) -> list[OpenFile]:
        """Return the open files of a workshop."""
        return [one for one in self._open.values() if one.source.root == root and one.source.in_workshop]

    def roots(self) -> set[Path]:
        """Return the workshops of which files are open."""
        return {one.source.root for one in self._open.values() if one.source.in_workshop}

    def uri_at(self, path: Path) -> str:
        """Return the editor's own address of a file, or a new one for a file that is not open."""
        return next((uri for uri, one in self._open.items() if one.source.path == path), None) or uri_of(path)

    def version_at(self, path: Path) -> int | None:
        """Return the version of an open file; None for one that is not open."""
        return next((one.version for one in self._open.values() if one.source.path == path), None)
