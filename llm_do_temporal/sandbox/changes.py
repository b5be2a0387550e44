"""Changes of one text file: the diff, and the replacement, all or nothing.

Owns diffs, atomic replacement and the order of changes. Called by the file activities with a folder that `safe_open`
opened; works through its descriptor only, so that nothing done to the path meanwhile matters.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.messages.sizes import MAX_DIFF_CHARS
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.sandbox.safe_open import check_regular, open_by_component

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


def read_old(folder: int, name: str, max_bytes: int) -> OldFile | None:
    """Return the regular file `name` in `folder` with at most `max_bytes + 1` of its bytes; None where there is none.

    Raises OSError: EISDIR for a folder, ENXIO for anything else that is not a file.
    """
    try:
        descriptor = open_by_component(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    try:
        facts = check_regular(descriptor)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
        size, mode = max(facts.st_size, len(data)), stat.S_IMODE(facts.st_mode)
        return OldFile(data=data, size=size, mode=mode, sha256=content_digest(data, facts))
    finally:
        os.close(descriptor)


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
    with ExitStack() as held:
        # Some file systems have no locks, some workshops cannot be written. Each replacement is atomic there, too.
        with suppress(OSError):
            lock = _lock_of(folder, workshop)
            held.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_of(folder: int, workshop: Path) -> int:
    """The open file, own to every caller, by which changes in `folder` exclude each other."""
    facts = os.fstat(folder)
    locks = workshop / STATE_FOLDER / "locks"
    locks.parent.mkdir(mode=0o700, exist_ok=True)
    locks.mkdir(mode=0o700, exist_ok=True)
    # Few files for any number of folders: two that share one wait for each other now and then.
    name = f"{(facts.st_dev * 31 + facts.st_ino) % _LOCKS:02x}"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(locks / name, flags, 0o600)


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
    head = f"--- {path if old is not None else '/dev/null'}\n+++ {path}\n"
    before = "" if old is None else _text_of(old)
    if before is None:
        return f"{head}(all that was there is replaced: not text, or too large to compare)\n"
    if before == new and old is not None:
        return ""
    return _cut(head + "".join(_ended(line) for line in _changed_lines(_lines(before), _lines(new))))


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
    yield f"@@ -{_span(start, len(removed))} +{_span(start, len(added))} @@\n"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _span(start: int, count: int) -> str:
    # A unified diff numbers lines from 1, and an empty span by the line before it.
    return f"{start + 1 if count else start},{count}"


def _lines(text: str) -> list[str]:
    # Not splitlines(): that breaks at characters which are no line ends for anybody else.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _cut(diff: str) -> str:
    if len(diff) <= MAX_DIFF_CHARS:
        return diff
    kept = diff[:MAX_DIFF_CHARS]
    kept = kept[: kept.rfind("\n") + 1] or f"{kept}\n"
    return f"{kept}... the diff is cut here: {len(diff) - len(kept)} of {len(diff)} characters are not shown\n"
