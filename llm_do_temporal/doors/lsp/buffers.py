"""Open texts of one editor, by the real paths of their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.definitions.language.edited_file import EditedFile, edited_file
from llm_do_temporal.doors.lsp.positions import path_of, uri_of


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
