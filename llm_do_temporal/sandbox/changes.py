"""Files of a workshop as tools see and change them: opened, compared with an earlier look, and replaced.

Owns diffs, atomic replacement, the order
of changes, and how a file is compared with an earlier look. Works through the descriptors of folders that `safe_open`
opened, so that nothing done to the path meanwhile matters.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from llm_do_temporal.errors import LlmDoError, ShownDiffers
from llm_do_temporal.messages.sizes import MAX_DIFF_CHARS
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, Place
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.layers.patch import ended_line, line_span, split_lines
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.sandbox.os_errors import is_passing
from llm_do_temporal.sandbox.safe_open import (
    FileOpener,
    WorkshopFolder,
    check_regular,
    open_by_component,
    writing_no_link,
)

MAX_COMPARED_LINES = 4_000
"""Most lines that are compared one by one, which grows with their square; the change of more is shown as one block."""
_CONTEXT_LINES = 3
_LOCKS = 256


@dataclass(frozen=True)
class OldFile:
    """A file before it is changed."""

    data: bytes
    """Content, or the beginning of it where the file is larger than the caller's limit."""
    size: int
    mode: int
    """Permission bits."""
    sha256: str = ""
    """Digest of its content."""


class Spot(Protocol):
    """File that a call may write to, and that may not exist yet."""

    in_workshop: str
    """Path below the workshop."""

    def old(self, max_bytes: int) -> OldFile | None:
        """Return the file with at most `max_bytes + 1` of its bytes; None where there is none.

        Raises OSError: EISDIR for a folder, ENXIO for anything else that is not a file.
        """
        ...

    def replace(self, data: bytes, old: OldFile | None) -> None:
        """Put `data` there, whole or not at all, with the permissions of `old`; None: the usual ones."""
        ...


class SandboxFiles(FileOpener, Protocol):
    """Files that can also be changed."""

    def spot(
        self, place: Place, *, apply: bool, create: bool, check: Callable[[str], None] | None = None
    ) -> AbstractContextManager[Spot]:
        """See WorkshopFiles."""
        ...


class WorkshopFiles(WorkshopFolder):
    """The workshop's own files, and the way of changing one of them."""

    @contextmanager
    def spot(
        self, place: Place, *, apply: bool, create: bool, check: Callable[[str], None] | None = None
    ) -> Generator[_FolderSpot]:
        """Open the place of a file to be written. It is for a preview only unless `apply`; see `target` for the rest.

        Raises as `target` does, meanwhile, too.
        """
        with self.target(place, create=create, check=check) as target:
            # A preview needs no lock: files are replaced as a whole.
            held = nullcontext() if target.folder is None or not apply else alone_in(target.folder, self.path)
            with held, writing_no_link(place.path):
                yield _FolderSpot(target.folder, target.name, target.in_workshop)


@dataclass
class _FolderSpot:
    folder: int | None
    name: str
    in_workshop: str

    def old(self, max_bytes: int) -> OldFile | None:
        return None if self.folder is None else read_old(self.folder, self.name, max_bytes)

    def replace(self, data: bytes, old: OldFile | None) -> None:
        assert self.folder is not None
        replace_file(self.folder, self.name, data, None if old is None else old.mode)


def read_old(folder: int, name: str, max_bytes: int) -> OldFile | None:
    """Return the file `name` in `folder`, as `Spot.old` does."""
    try:
        descriptor = open_by_component(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    try:
        return old_of(descriptor, max_bytes)
    finally:
        os.close(descriptor)


def old_of(descriptor: int, max_bytes: int) -> OldFile:
    """Return an open file, as `Spot.old` does."""
    facts = check_regular(descriptor)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        data = file.read(max_bytes + 1)
    size, mode = max(facts.st_size, len(data)), stat.S_IMODE(facts.st_mode)
    return OldFile(data=data, size=size, mode=mode, sha256=content_digest(data, facts))


def content_digest(data: bytes, facts: os.stat_result) -> str:
    """The digest of a file of which `data` is all, or the beginning; of the rest the file system's word counts."""
    digest = hashlib.sha256(data)
    if facts.st_size > len(data):
        digest.update(f"{facts.st_size} {facts.st_dev} {facts.st_ino} {facts.st_mtime_ns} {facts.st_ctime_ns}".encode())
    return digest.hexdigest()


@contextmanager
def alone_in(folder: int, workshop: Path) -> Generator[None]:
    """Keep other changes of files in `folder`, in this process and others, waiting meanwhile.

    Two edits of one turn run side by side; without this the second could undo the first. What is locked lies in the
    workshop's own state, where no worker and no isolated command gets: one that locks the folder holds nobody up.
    """
    with alone_in_all([os.fstat(folder)], workshop):
        yield


@contextmanager
def alone_in_all(folders: Iterable[os.stat_result], workshop: Path) -> Generator[None]:
    """Keep other changes of files in all these folders waiting meanwhile; see `alone_in`."""
    with ExitStack() as held:
        # Some file systems have no locks, some workshops cannot be written. Each replacement is atomic there, too.
        with suppress(OSError):
            # In one order, or two callers could wait for each other.
            # Few files for any number of folders: two that share one wait for each other now and then.
            for name in sorted({f"{(one.st_dev * 31 + one.st_ino) % _LOCKS:02x}" for one in folders}):
                # An open file, own to every caller, by which changes in the folders of this name exclude each other.
                locks = workshop / STATE_FOLDER / "locks"
                locks.parent.mkdir(mode=0o700, exist_ok=True)
                locks.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                lock = os.open(locks / name, flags, 0o600)
                held.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace_file(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Put `data` at `name` in `folder`, whole or not at all; `mode` are the permission bits, None the usual ones."""
    temporary = f".llm-do-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode & 0o700, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def diff_of(path: str, old: OldFile | None, new: str) -> str:
    """Return the change of the file with the virtual `path` as a unified diff; empty where nothing changes.

    Past 64 KiB it ends in a line that says so.
    """
    # A line end in a path would make lines of a change that is none.
    path = shown_name(path) if "\n" in path else path
    head = f"--- {path if old is not None else '/dev/null'}\n+++ {path}\n"
    before = "" if old is None else _text_of(old)
    if before is None:
        return f"{head}(all that was there is replaced: not text, or too large to compare)\n"
    if before == new and old is not None:
        return ""
    return _cut(head + "".join(ended_line(line) for line in _changed_lines(split_lines(before), split_lines(new))))


def _text_of(old: OldFile) -> str | None:
    try:
        return old.data.decode() if old.size == len(old.data) else None
    except UnicodeDecodeError:
        return None


def _changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if len(old) + len(new) <= MAX_COMPARED_LINES:
        # The first two lines are the names, which the caller writes itself.
        lines = difflib.unified_diff(old, new, n=_CONTEXT_LINES)
        next(lines, None)
        next(lines, None)
        yield from lines
        return
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    yield f"@@ -{line_span(start, len(removed))} +{line_span(start, len(added))} @@\n"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _cut(diff: str) -> str:
    if len(diff) <= MAX_DIFF_CHARS:
        return diff
    kept = diff[:MAX_DIFF_CHARS]
    kept = kept[: kept.rfind("\n") + 1] or f"{kept}\n"
    return f"{kept}... the diff is cut here: {len(diff) - len(kept)} of {len(diff)} characters are not shown\n"


MAX_HASHED_BYTES = 32_000_000
"""Bytes in a digest; of larger files the beginning counts, and facts of the file system: some exceed any disk."""
MAX_COPIED_BYTES = 256 * 1024 * 1024
"""Largest file of a layer, of which there is only a copy to look at."""


def seen_old(place: Place, in_workshop: str, old: OldFile | None, new: bytes) -> SeenFile:
    """Return the facts of a file that is to have the bytes `new`, as it is before."""
    return SeenFile(
        path=place.path,
        place=in_workshop,
        sha256=None if old is None else old.sha256,
        mode=None if old is None else old.mode,
        after=hashlib.sha256(new).hexdigest(),
    )


def see_open(file: BinaryIO, path: str, in_workshop: str) -> SeenFile:
    """Return the facts of an open file, which is read from its begin and left there."""
    facts = os.fstat(file.fileno())
    # A copy without a name, as of a file in a layer, is another one each time: all of its bytes count.
    is_copy = facts.st_nlink == 0 and facts.st_size <= MAX_COPIED_BYTES
    file.seek(0)
    sha256 = content_digest(file.read(MAX_COPIED_BYTES if is_copy else MAX_HASHED_BYTES), facts)
    file.seek(0)
    return SeenFile(path=path, place=in_workshop, sha256=sha256, mode=stat.S_IMODE(facts.st_mode))


def see_file(folder: FileOpener, place: Place) -> SeenFile:
    """Return the file at a place, without a digest where there is none that can be read.

    Raises an OSError that may pass: a file that cannot be read for a moment is not a file that is gone.
    """
    try:
        with folder.found(place) as (file, in_workshop):
            return see_open(file, place.path, in_workshop)
    except LlmDoError:
        return SeenFile(path=place.path)
    except OSError as error:
        if is_passing(error):
            raise
        return SeenFile(path=place.path)


def check_as_shown(expected: SeenFile | None, found: SeenFile) -> None:
    """Raise ShownDiffers where a file is not as it was shown; `expected` None: nobody was shown any."""
    if expected is not None and not expected.is_like(found):
        raise ShownDiffers(f"'{found.path}' has changed since it was shown", next_step="Try it again.")
