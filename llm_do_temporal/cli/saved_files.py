"""Files that a person edits, looked at until one of them has been saved.

They are read a few times a second: that sees files on network mounts and in containers, too, and those that an editor
has put in the place of the old one by a rename, and some small files cost nothing. No package is needed for it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from llm_do_temporal.cli.text import say

LOOK_SECONDS = 0.2
"""Time between two looks. A version counts once two looks have seen the same: editors write in several steps."""


class SavedFiles:
    """Versions of some files; which they are is asked anew after each save."""

    def __init__(self, files: Callable[[], Iterable[Path]], *, any_change: bool = False) -> None:
        """Look at the files; with `any_change` these are asked for at each look, and new and missing ones count."""
        self._files = files
        self._any_change = any_change
        self._looked_at = tuple(files())
        self._known = self._read()

    async def saved(self) -> None:
        """Return once a file has other bytes than when this was made, or last returned.

        While a file that was there is empty or gone, it is being written.
        """
        before = self._known
        while True:
            now = self._read()
            whole = self._any_change or self._known.keys() <= now.keys()
            if now != self._known and now == before and whole:
                self._looked_at = tuple(self._files())
                self._known = self._read() | {path: now[path] for path in self._looked_at if path in now}
                return
            before = now
            await asyncio.sleep(LOOK_SECONDS)

    def _read(self) -> dict[Path, bytes]:
        """Return the bytes of the files that are there with any."""
        if self._any_change:
            self._looked_at = tuple(self._files())
        return {path: content for path in self._looked_at if (content := _bytes(path))}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def until_saved(saved: SavedFiles, words: str) -> bool:
    """Say the words, and wait until a file was saved; False: a person has pressed Ctrl-C before."""
    loop, left = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, left.set)
    say(words)
    saving, leaving = asyncio.create_task(saved.saved()), asyncio.create_task(left.wait())
    try:
        done, _ = await asyncio.wait({saving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return leaving not in done
    finally:
        for task in (saving, leaving):
            task.cancel()
        await asyncio.gather(saving, leaving, return_exceptions=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
