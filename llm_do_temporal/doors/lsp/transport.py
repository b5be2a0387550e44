"""The pipes of the editor that started the server: messages within bounds, and mistakes that end nothing."""

from __future__ import annotations

import asyncio
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, BinaryIO

from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.io_ import StdoutWriter, run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest message. Editors send whole texts, and no text that can be used has more than a megabyte."""
_MAX_HEADER_BYTES = 4096
_CHUNK_BYTES = 1024 * 1024


class BoundedPipe:
    """Reader of the editor's messages, which takes no more memory than one message may have."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._thread = ThreadPoolExecutor(1)

    async def readline(self) -> bytes:
        """Return a line of a header; empty at the end."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._pipe.readline, _MAX_HEADER_BYTES)

    async def readexactly(self, size: int) -> bytes:
        """Return a message; in place of one that is too large, something that is no message."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, size)

    def _read(self, size: int) -> bytes:
        if size <= MAX_MESSAGE_BYTES:
            return self._pipe.read(size)
        while size > 0 and (chunk := self._pipe.read(min(size, _CHUNK_BYTES))):
            size -= len(chunk)
        return b"" if size > 0 else b"too large"


class AnsweringProtocol(LanguageServerProtocol):
    """Protocol that answers a request that it cannot read, too: nobody waits for it for ever."""

    def structure_message(self, data: Any) -> Any:
        """Read a message. Raises JsonRpcException."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            number = data.get("id")
            if "method" in data and isinstance(number, str | int):
                self._send_response(number, error=JsonRpcInvalidParams().to_response_error())
            raise


async def serve(server: LanguageServer) -> None:
    """Serve the editor at stdin and stdout until it says `exit`, or closes its end."""
    # Its lines would have contents of files, and paths of this machine.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    server.protocol.set_writer(StdoutWriter(sys.stdout.buffer))
    await run_async(
        stop_event=Event(),
        reader=BoundedPipe(sys.stdin.buffer),  # pyright: ignore[reportArgumentType] - has all that is used
        protocol=server.protocol,
        error_handler=server.report_server_error,
    )


def say_failure(method: str, error: BaseException) -> None:
    """Write one line about a mistake to the editor's log: its kind, and nothing that it was about."""
    sys.stderr.write(f"llm-do-temporal: {method} failed: {type(error).__name__}\n")
    sys.stderr.flush()
