"""Files that a command has written over the workers' own, taken over into these as `write_file` would write them.

Owns what becomes of the upper folder of an overlay where no layer takes it: each file is judged as `write_file` at its
path would be, and then written, whole or not at all. Nothing else of the command's work reaches the real files: it
removes none, makes no links, and changes no permissions. Called by the shell activity, once the command has ended.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from llm_do_temporal.errors import EffectFailed, LlmDoError, SandboxRefusal
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import Tree, check_size, check_writable, locate
from llm_do_temporal.policy.layers.layer import FileBase, LayerNode, below, is_folder, shown
from llm_do_temporal.sandbox.changes import WorkshopFiles, check_defines_nothing, check_not_write_protected
from llm_do_temporal.sandbox.layers.command_folders import ELSEWHERE, OPAQUE, CommandFolders, marks_of
from llm_do_temporal.sandbox.layers.contents import MAX_FILE_BYTES
from llm_do_temporal.sandbox.layers.overlay import OverlayFolders

MAX_FILES = 1_000
"""Most files of one command: each is written to the disk before the next one."""
MAX_BYTES = 1024 * 1024 * 1024
"""Most bytes of all files of one command."""
_MAX_ENTRIES = 100_000
_MAX_DEPTH = 100
_MAX_REASONS = 5
_MAX_NAMED = 5
_SHOWN_CHARS = 200
_NOT_REMOVED = "was removed by the command and is still there: commands can make and change files here, not remove them"


class _TooMuch(Exception):
    """So much was written that none of it is taken over."""


@dataclass(frozen=True)
class _Written:
    """File that the command has left behind."""

    source: Path
    path: str
    """Virtual path."""
    mode: int


@dataclass
class WrittenFiles:
    """Work of one command, on its way into the real files of a workshop."""

    workshop: Path
    tree: Tree
    protection: Protection
    since: float
    """Time before the command, as `time.time()`: a file that others have changed since is theirs."""
    mount_points: frozenset[str] = frozenset()
    """Virtual paths at which other folders of the command were mounted."""
    _left: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Virtual paths of what is not taken over, by the reason."""
    _files: list[_Written] = field(default_factory=list[_Written])
    _entries: int = 0
    _bytes: int = 0

    def take(self, over: CommandFolders) -> str:
        """Take the files over; return a remark on what was left out and why, empty where all was taken."""
        try:
            for part in over.parts:
                if isinstance(part.mount.overlay, OverlayFolders):
                    found = _Folder(part.mount.overlay.upper, part.folder.place.path, part.at)
                    self._look_through(found, over.base, 0)
        except _TooMuch as error:
            return f"nothing that the command wrote was taken over: {error}"
        files = WorkshopFiles(self.workshop)
        for written in self._files:
            with self._leaving(written.path):
                self._take(written, files)
        reasons = [f"{_named(paths)} {reason}" for reason, paths in self._left.items()]
        more = f"; and {len(reasons) - _MAX_REASONS} more reasons" if len(reasons) > _MAX_REASONS else ""
        return f"not all was taken over as it is: {'; '.join(reasons[:_MAX_REASONS])}{more}" if reasons else ""

    def _look_through(self, folder: _Folder, base: FileBase, depth: int) -> bool:
        """Find the files of a folder; return whether anything is in it."""
        if depth > _MAX_DEPTH:
            self._leave(folder.path, f"lies in more than {_MAX_DEPTH} folders")
            return True
        names: set[str] = set()
        with self._leaving(folder.path):
            names = {entry.name for entry in os.scandir(folder.upper)}
            if not OPAQUE.isdisjoint(marks_of(folder.upper)):
                for name in sorted(set(base.names(folder.at)) - names):
                    self._leave(folder.virtual(name), _NOT_REMOVED)
        self._entries += len(names)
        if self._entries > _MAX_ENTRIES:
            raise _TooMuch(f"it left more than {_MAX_ENTRIES} files and folders behind")
        for name in sorted(names):
            with self._leaving(folder.virtual(name)):
                self._look_at(folder, name, base, depth)
        return bool(names)

    def _look_at(self, folder: _Folder, name: str, base: FileBase, depth: int) -> None:
        source, path = folder.upper / name, folder.virtual(name)
        if path in self.mount_points:
            return
        facts = source.lstat()
        kind = stat.S_IFMT(facts.st_mode)
        if kind == stat.S_IFCHR and facts.st_rdev == 0:
            self._leave(path, _NOT_REMOVED)
        elif kind == stat.S_IFDIR:
            inner = _Folder(source, path, below(folder.at, name))
            before = _look(base, inner.at)
            is_there = is_folder(before)
            if not self._look_through(inner, base, depth + 1) and not is_there:
                self._leave(path, "is an empty folder; a folder is made with the first file in it")
            if before is not None and is_there and before.mode != facts.st_mode & 0o777:
                self._leave(path, "keeps its permissions: commands change none here")
        elif kind == stat.S_IFLNK:
            self._leave(path, "is a symbolic link, and commands make none here")
        elif kind != stat.S_IFREG:
            self._leave(path, "is neither a file nor a folder")
        elif any(mark.endswith(ELSEWHERE) for mark in marks_of(source)):
            self._leave(path, "is only a reference to another file")
        else:
            self._add(_Written(source, path, facts.st_mode & 0o777), facts.st_size)

    def _add(self, written: _Written, size: int) -> None:
        place = locate(self.tree, written.path)
        check_writable(place, self.tree)
        check_size(place, size)
        if size > MAX_FILE_BYTES:
            raise SandboxRefusal(f"'{place.path}' has more than the {MAX_FILE_BYTES} bytes that a command may write")
        self._files.append(written)
        self._bytes += size
        if len(self._files) > MAX_FILES:
            raise _TooMuch(f"it wrote more than {MAX_FILES} files")
        if self._bytes > MAX_BYTES:
            raise _TooMuch(f"it wrote more than {MAX_BYTES} bytes")

    def _take(self, written: _Written, files: WorkshopFiles) -> None:
        place = locate(self.tree, written.path)
        data = written.source.read_bytes()
        check_size(place, len(data))
        check = partial(check_defines_nothing, place, protection=self.protection)
        with files.spot(place, apply=True, create=True, check=check) as spot:
            old = spot.old(MAX_FILE_BYTES)
            if old is not None and old.data == data:
                if old.mode & 0o777 != written.mode:
                    self._leave(written.path, "keeps its permissions: commands change none here")
                return
            if old is not None and (self.workshop / spot.in_workshop).lstat().st_ctime > self.since:
                raise EffectFailed(f"'{place.path}' was changed by something else while the command ran")
            check_not_write_protected(place, old)
            spot.replace(data, old)
        if written.mode & 0o111 and (old is None or not old.mode & 0o111):
            self._leave(written.path, "was taken over without the permission to be executed")

    @contextmanager
    def _leaving(self, path: str) -> Generator[None]:
        """Leave the file or folder out, where it is refused or cannot be used."""
        try:
            yield
        except LlmDoError as error:
            self._leave(path, error.message.replace(f"'{path}' ", "", 1))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
            self._leave(path, f"cannot be taken over: {reason}")

    def _leave(self, path: str, reason: str) -> None:
        self._left.setdefault(reason, []).append(path)


@dataclass(frozen=True)
class _Folder:
    """Folder that the command has written in."""

    upper: Path
    path: str
    """Virtual path."""
    at: str
    """Path below the workshop, links followed; empty for the workshop itself."""

    def virtual(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}"


def _look(base: FileBase, path: str) -> LayerNode | None:
    with suppress(SandboxRefusal, OSError):
        return base.look(path)
    return None


def _named(paths: Sequence[str]) -> str:
    """Return the first paths in words, as the subject of a sentence."""
    listed = ", ".join(f"'{shown(path[:_SHOWN_CHARS])}'" for path in paths[:_MAX_NAMED])
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    return listed if len(paths) == 1 else f"each of {listed}{more}"
