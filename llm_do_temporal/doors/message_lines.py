"""Messages of JSON-RPC as lines of JSON at a pair of streams; a line that is no message is passed over."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

MAX_LINE_BYTES = 64 << 20
"""Most bytes of a line; attachments are in it, in base64. A longer one is passed over."""


class MessageLines:
    """Two streams, of which the reader was made for lines of MAX_LINE_BYTES."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, once the other end has read those before. Raises ConnectionError."""
        async with self._turn:
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        while True:
            try:
                line = await self._reader.readline()
                if not line:
                    return None
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_message(message):
                return message

    async def close(self) -> None:
        """Leave the streams: they are the process's own."""


def _is_message(value: Any) -> bool:
    """Whether a value has the outer shape of a request, a notification or an answer."""
    if not isinstance(value, dict):
        return False
    message = cast("dict[str, Any]", value)
    is_named = isinstance(message.get("method", ""), str) and isinstance(message.get("id"), str | int | None)
    return is_named and isinstance(message.get("error") or {}, dict)
