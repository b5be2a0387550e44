"""Openers: the way from a judged place to a file, of a workshop's own files or of these as a layer changes them.

`safe_open.WorkshopFolder` is the one, `layers.files.LayeredFiles` the other. Whoever reads knows neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from llm_do_temporal.policy.files.sandbox import Place


class _Sized(Protocol):
    @property
    def st_size(self) -> int: ...


class FolderEntry(Protocol):
    """Entry of a folder; that of a real one is an `os.DirEntry`."""

    @property
    def name(self) -> str:
        """Name of the entry."""
        ...

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a folder."""
        ...

    def is_file(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a regular file."""
        ...

    def is_symlink(self) -> bool:
        """Return whether it is a link."""
        ...

    def stat(self, *, follow_symlinks: bool) -> _Sized:
        """Return facts with the size in bytes. Raises FileNotFoundError for what was removed meanwhile."""
        ...


class OpenFolder(Protocol):
    """An open folder."""

    def entries(self, relative: str = ".") -> AbstractContextManager[Iterator[FolderEntry]]:
        """Entries of the folder `relative` below this one, in any order. Raises OSError."""
        ...


class FileOpener(Protocol):
    """Way from a judged place to an open file; its methods fail as those of WorkshopFolder do."""

    def found(self, place: Place) -> AbstractContextManager[tuple[BinaryIO, str]]:
        """The regular file at `place`, open for reading bytes, and its path below the workshop, links followed."""
        ...

    def size(self, place: Place) -> int:
        """Return the size in bytes of the regular file at `place`."""
        ...

    def folder(self, place: Place) -> AbstractContextManager[OpenFolder]:
        """The folder at `place`."""
        ...
