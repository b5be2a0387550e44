"""File that a person edits, looked at until it has been saved.

It is read a few times a second: that sees files on network mounts and in containers, too, and those that an editor has
put in the place of the old one by a rename, and one small file costs nothing. No package is needed for it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

LOOK_SECONDS = 0.2
"""Time between two looks. A version counts once two looks have seen the same: editors write in several steps."""


class SavedFile:
    """Versions of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known = self._bytes()

    async def saved(self) -> None:
        """Return once the file has other bytes than when this was made, or last returned.

        A file that is empty or not there is being written.
        """
        before = self._known
        while True:
            now = self._bytes()
            if now and now != self._known and now == before:
                self._known = now
                return
            before = now
            await asyncio.sleep(LOOK_SECONDS)

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError:
            return b""
