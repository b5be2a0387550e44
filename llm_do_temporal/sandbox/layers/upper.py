"""Upper folder of an overlay, read back into a layer after a command.

Owns the meaning of what overlayfs leaves there: a device 0/0 where something was deleted, a mark on a folder that has
nothing to do with the one below it, a whole copy of each file that was touched. Works on descriptors, without
following a link, and needs no mount. What no layer can hold is refused by name, and then nothing of the command counts:
half of its work would be worse than none.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.layers.draft import Kept, LayerDraft
from llm_do_temporal.policy.layers.layer import Layer, LayerAuthor, check_count
from llm_do_temporal.policy.layers.nodes import (
    FileBase,
    LayerNode,
    NodeKind,
    alike,
    file_node,
    folder_node,
    link_node,
)
from llm_do_temporal.policy.layers.paths import below, checked_path, shown
from llm_do_temporal.sandbox.layers.contents import KEPT_TOGETHER, LayerContents

MAX_NAMED = 5
"""Most files that one refusal names."""
MAX_REFUSED = 100
"""Refused files after which no others are looked at: a command can leave any number behind."""
MAX_DEPTH = 200
"""Most folders within each other: each is open while it is read."""
OPAQUE = frozenset({"user.overlay.opaque", "trusted.overlay.opaque"})
ELSEWHERE = (".overlay.redirect", ".overlay.metacopy", ".overlay.whiteout")
"""Ends of the names of marks that say that the truth is not in this folder; overlays are mounted without them."""
_POWERS = "security.capability"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SET_ID = stat.S_ISUID | stat.S_ISGID


class UpperReader:
    """Reads upper folders into layers."""

    def __init__(self, base: FileBase, contents: LayerContents) -> None:
        self._base = base
        self._contents = contents

    def read(self, upper: Path, layer: Layer, author: LayerAuthor, at: str = "", *, with_mode: bool = False) -> Layer:
        """Return the layer with all that the upper folder changes; `at` is the path that it lay over, empty for the
        top. With `with_mode` its own permissions count, too; those of the top are in no layer.

        Raises SandboxRefusal, which names up to five files, for what no layer can hold.
        """
        draft = LayerDraft(layer, self._base, author)
        with ThreadPoolExecutor(KEPT_TOGETHER) as pool:
            reading = _Reading(draft, self._contents, pool)
            with suppress(_TooManyRefused), _opened(str(upper), None) as descriptor:
                if with_mode and at:
                    _put_folder(at, os.fstat(descriptor).st_mode & 0o777, draft)
                reading.read_folder(descriptor, at, 0)
                reading.take_files()
        refused = reading.refused
        if refused:
            count = f"{len(refused) - MAX_NAMED} more" if len(refused) < MAX_REFUSED else "many more"
            more = f", and {count}" if len(refused) > MAX_NAMED else ""
            raise SandboxRefusal(
                f"nothing that the command wrote was taken over: {'; '.join(refused[:MAX_NAMED])}{more}",
                next_step="Run it again in a way that leaves nothing of this behind.",
            )
        return draft.layer()


class _TooManyRefused(Exception):
    """So much is refused that nobody has to know of more."""


@dataclass
class _Reading:
    """Reading of one upper folder: what it makes of the layer, and what is refused."""

    draft: LayerDraft
    contents: LayerContents
    pool: ThreadPoolExecutor
    refused: list[str] = field(default_factory=list[str])
    files: list[tuple[str, int, Future[Kept]]] = field(default_factory=list[tuple[str, int, Future[Kept]]])
    """Path and permissions of each file, and its bytes on their way into the store."""
    room: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(2 * KEPT_TOGETHER))
    """Files that may be open at a time."""

    def read_folder(self, folder: int, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.refused.append(f"'{path[:80]}…' lies in more than {MAX_DEPTH} folders")
            return
        if not OPAQUE.isdisjoint(self._marks(folder, path)):
            for name in self.draft.names(path):
                with self._refusing(path):
                    self.draft.delete(below(path, name))
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            inner = below(path, name)
            with self._refusing(inner):
                checked_path(inner)
                self._read_entry(folder, name, inner, depth)

    def _read_entry(self, folder: int, name: str, path: str, depth: int) -> None:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = stat.S_IFMT(facts.st_mode)
        if kind == stat.S_IFCHR and facts.st_rdev == 0:
            if self.draft.kind(path) is not None:
                self.draft.delete(path)
        elif kind == stat.S_IFDIR:
            with _opened(name, folder) as inner:
                _put_folder(path, facts.st_mode & 0o777, self.draft)
                self.read_folder(inner, path, depth + 1)
        elif kind == stat.S_IFLNK:
            _put(path, link_node(os.readlink(name, dir_fd=folder), path), self.draft)
        elif kind == stat.S_IFREG:
            self._read_file(folder, name, path)
        else:
            self.refused.append(f"'{path}' is neither a file nor a link nor a folder")

    def _read_file(self, folder: int, name: str, path: str) -> None:
        descriptor = os.open(name, _FILE, dir_fd=folder)
        with ExitStack() as opened:
            opened.callback(os.close, descriptor)
            mode = os.fstat(descriptor).st_mode
            if mode & _SET_ID or _POWERS in self._marks(descriptor, path):
                self.refused.append(f"'{path}' would run with other rights than those of whoever runs it")
                return
            check_count(len(self.files) + 1)
            self.room.acquire()
            self.files.append((path, mode & 0o777, self.pool.submit(self._keep, descriptor, path)))
            opened.pop_all()

    def _keep(self, descriptor: int, path: str) -> Kept:
        try:
            return self.contents.keep_open(descriptor, path)
        finally:
            os.close(descriptor)
            self.room.release()

    def take_files(self) -> None:
        """Put the files into the layer, once all else is in it."""
        for path, mode, keeping in self.files:
            with self._refusing(path):
                kept = keeping.result()
                _put(path, file_node(kept.sha256, kept.bytes, blob=kept.blob, mode=mode), self.draft)

    @contextmanager
    def _refusing(self, path: str) -> Generator[None]:
        try:
            yield
        except SandboxRefusal as error:
            self.refused.append(shown(str(error)))
        except PermissionError:
            self.refused.append(f"'{shown(path)}' cannot be read with the permissions that it has")
        if len(self.refused) >= MAX_REFUSED:
            raise _TooManyRefused

    def _marks(self, descriptor: int, path: str) -> Iterable[str]:
        """Return the names of the extended attributes; those that say that the truth is elsewhere are refused."""
        found = marks_of(descriptor)
        if any(name.endswith(ELSEWHERE) for name in found):
            self.refused.append(f"'{path or '.'}' is only a reference to another file")
        return found


def marks_of(file: int | Path) -> Sequence[str]:
    """Return the names of the extended attributes of a file or folder, which is open or has this path; none where the
    file system has none. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return ()
    try:
        return os.listxattr(file)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return ()
        raise


def split_links(upper: Path) -> tuple[str, ...]:
    """Return the paths, sorted, of files that have several names below the folder: a layer takes each for its own."""
    names: dict[int, list[str]] = {}
    for folder, _folders, files in os.walk(upper):
        for name in files:
            facts = (Path(folder) / name).lstat()
            if facts.st_nlink > 1 and stat.S_ISREG(facts.st_mode):
                names.setdefault(facts.st_ino, []).append(shown(str((Path(folder) / name).relative_to(upper))))
    return tuple(sorted(path for paths in names.values() if len(paths) > 1 for path in paths))


def _put(path: str, node: LayerNode, draft: LayerDraft) -> None:
    """Have the node at the path, where it is not already; a folder there goes with all that is in it."""
    if draft.kind(path) is NodeKind.FOLDER:
        draft.delete(path)
    if not alike(draft.look(path), node):
        draft.put(path, node)


def _put_folder(path: str, mode: int, draft: LayerDraft) -> None:
    if draft.kind(path) is not NodeKind.FOLDER:
        draft.put(path, folder_node(mode))
    else:
        draft.change_mode(path, mode)


@contextmanager
def _opened(path: str, folder: int | None) -> Generator[int]:
    descriptor = os.open(path, _FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
