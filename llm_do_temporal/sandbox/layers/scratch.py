"""Scratch folders of commands, beside the files: each is removed in the end, or later, where its process was killed.

A process holds a lock in each of its folders for as long as it needs it. The lock goes with the process, whatever ends
it, so a folder that nobody has locked is nobody's.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from uuid import uuid4

PREFIX = "llm-do-command-"
YOUNG_SECONDS = 600
"""Age below which an unlocked folder is left alone: it may be about to be locked."""
_LOCK = ".lock"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch_folder(at: Path | None = None) -> Generator[Path]:
    """Make an empty folder that nobody else can enter, in `at`; None: among the temporary files of the machine.

    The first time in a process, what killed ones have left there is removed.
    """
    _clear_once(tempfile.gettempdir() if at is None else str(at))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=at))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        inner = folder / "in"
        inner.mkdir()
        yield inner
    finally:
        remove_folder(folder)
        os.close(lock)


@cache
def _clear_once(at: str) -> None:
    remove_leftovers(Path(at))


def remove_leftovers(at: Path | None = None, *, young_seconds: float = YOUNG_SECONDS) -> int:
    """Remove the scratch folders of processes that were killed; return how many. Others' folders are left alone."""
    removed = 0
    for folder in Path(tempfile.gettempdir() if at is None else at).glob(f"{PREFIX}*"):
        with suppress(OSError):
            facts = folder.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if time.time() - os.fstat(lock).st_mtime < young_seconds:
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(folder)
                removed += 1
            finally:
                os.close(lock)
    return removed


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep, also what nobody may enter. What cannot go stays."""
    with suppress(OSError):
        top = os.open(folder, _FOLDER)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(top: int) -> None:
    """Remove all that is in an open folder.

    Folders within others are moved up before they are emptied: a command can make them so deep that no path is long
    enough, and neither calls nor open files can follow.
    """
    prefix, numbers = f"{uuid4().hex}-", count()
    waiting = deque(_left_after_files(top))
    while waiting:
        name = waiting.popleft()
        with suppress(OSError):
            os.chmod(name, 0o700, dir_fd=top)
            inner = os.open(name, _FOLDER, dir_fd=top)
            try:
                for one in _left_after_files(inner):
                    with suppress(OSError):
                        os.chmod(one, 0o700, dir_fd=inner)
                        moved = f"{prefix}{next(numbers)}"
                        os.rename(one, moved, src_dir_fd=inner, dst_dir_fd=top)
                        waiting.append(moved)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _left_after_files(folder: int) -> list[str]:
    """Remove what is no folder in an open folder; return the names of the folders."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]
