"""Single keys typed at the terminal, without waiting for the end of a line."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import tty
from types import TracebackType
from typing import Self

_NAMES = {"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\r": "enter", "\n": "enter"}
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
_READ_BYTES = 1024


class KeyReader:
    """Reads keys as long as the block lasts; then the terminal reads lines again. Ctrl-C stays a signal."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._typed: asyncio.Queue[str] = asyncio.Queue()

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    async def next(self, patience: float) -> str:
        """Return a character, `up`, `down`, `enter` or `end`; empty if no key was typed for `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                return await self._typed.get()
        except TimeoutError:
            return ""

    def _read(self) -> None:
        data = os.read(self._descriptor, _READ_BYTES)
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        for key in parse_keys(data):
            self._typed.put_nowait(key)


def parse_keys(data: bytes) -> list[str]:
    """Return the keys that bytes of a terminal stand for; no bytes at all are the end of input."""
    if not data or data == b"\x04":
        return ["end"]
    found = (match.group() for match in _KEY.finditer(data.decode(errors="replace")))
    return [_NAMES.get(key, key) for key in found]
