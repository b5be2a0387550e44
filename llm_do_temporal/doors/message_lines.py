"""Messages of JSON-RPC as lines of JSON, each of a bounded length, at the pipes of the program that started a door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self, cast

MAX_LINE_BYTES = 64 << 20
"""Most bytes of a line; attachments are in it, in base64."""
_INVALID_REQUEST = -32_600
"""Code of JSON-RPC for a line that is answered without its id, which nobody has read."""
TOO_LONG = f"a message has more than {MAX_LINE_BYTES >> 20} MiB, and was passed over: attach less at once"
_PIECE_BYTES = 1 << 16


class BoundedLines:
    """Lines of a stream, read one by one; blank ones are passed over, and of one that is too long nothing is kept."""

    def __init__(self, read: Callable[[int], Awaitable[bytes]], refuse: Callable[[], Awaitable[None]]) -> None:
        """Take the lines of what `read` returns, which is nothing at the end; `refuse` tells of a line too long."""
        self._read = read
        self._refuse = refuse
        self._kept = bytearray()

    def __aiter__(self) -> Self:
        """Return the lines."""
        return self

    async def __anext__(self) -> bytearray:
        """Return the next line that is not blank, with its end."""
        while line := await self._next():
            if len(line) > MAX_LINE_BYTES:
                await self._refuse()
                while line and not line.endswith(b"\n"):
                    line = await self._next()
            elif not line.isspace():
                return line
        raise StopAsyncIteration

    async def _next(self) -> bytearray:
        """Return the next line, of one that is too long the next part, or nothing at the end of the stream."""
        seen = 0
        while not (end := self._kept.find(b"\n", seen) + 1) and (seen := len(self._kept)) <= MAX_LINE_BYTES:
            if not (piece := await self._read(_PIECE_BYTES)):
                break
            self._kept += piece
        end = end or len(self._kept)
        if end <= _PIECE_BYTES:
            line = self._kept[:end]
            del self._kept[:end]
            return line
        # A long line is cut out of its buffer, and not copied: there may be two of the longest at once, and no third.
        line, self._kept = self._kept, self._kept[end:]
        del line[end:]
        return line


class MessageLines:
    """Messages at two streams; a line that is no message is passed over."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines = BoundedLines(reader.read, self._refuse)
        self._writer = writer
        self._turn = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, once the other end has read those before. Raises ConnectionError."""
        async with self._turn:
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        async for line in self._lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_message(message):
                return message
        return None

    async def close(self) -> None:
        """Leave the streams: they are the process's own."""

    async def _refuse(self) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": _INVALID_REQUEST, "message": TOO_LONG}})


def _is_message(value: Any) -> bool:
    """Whether a value has the outer shape of a request, a notification or an answer."""
    if not isinstance(value, dict):
        return False
    message = cast("dict[str, Any]", value)
    is_named = isinstance(message.get("method", ""), str) and isinstance(message.get("id"), str | int | None)
    return is_named and isinstance(message.get("error") or {}, dict)
