"""Disk: every system call by which a commit changes files, in one place.

So that a test can end the process between any two of them, and see what is left. Works below open folders only.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

SYNCED_TOGETHER = 16
"""Most files that are written to the disk at a time."""


class Disk:
    """System calls that change files. All raise OSError."""

    def create(self, folder: int, name: str) -> int:
        """Make a file that only its owner may read, and return it open for writing; there must be none."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=folder)

    def write(self, file: int, data: bytes | memoryview) -> int:
        """Write some of the bytes, and return how many."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """Have the file or folder on the disk before anything else is done."""
        os.fsync(file)

    def permit(self, file: int, mode: int) -> None:
        """Give an open file or folder its permissions."""
        os.fchmod(file, mode)

    def link(self, target: str, folder: int, name: str) -> None:
        """Make a symbolic link; there must be nothing of this name."""
        os.symlink(target, name, dir_fd=folder)

    def rename(self, folder: int, name: str, new_folder: int, new_name: str) -> None:
        """Give a file or link another place, in that of what is there."""
        os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)

    def make_folder(self, folder: int, name: str, mode: int) -> None:
        """Make a folder; there must be nothing of this name."""
        os.mkdir(name, mode, dir_fd=folder)

    def remove(self, folder: int, name: str) -> None:
        """Remove a file or link."""
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, folder: int, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(name, dir_fd=folder)

    def sync_each(self, opening: Sequence[Callable[[], int]]) -> None:
        """Have files on the disk, several at a time: a disk takes them together. Each call opens one."""
        with ThreadPoolExecutor(SYNCED_TOGETHER) as pool:
            deque(pool.map(self._sync_opened, opening), maxlen=0)

    def _sync_opened(self, opening: Callable[[], int]) -> None:
        file = opening()
        try:
            self.sync(file)
        finally:
            os.close(file)

    def write_whole(self, folder: int, name: str, data: bytes, mode: int, *, synced: bool = True) -> None:
        """Make a file with these bytes and permissions, and unless `synced` is false have it on the disk."""
        file = self.create(folder, name)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self.write(file, rest) :]
            self.permit(file, mode)
            if synced:
                self.sync(file)
        finally:
            os.close(file)
