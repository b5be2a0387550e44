"""MCP servers that are programs, reached through their standard input and output.

Owns what of a program's output reaches the protocol's library: lines of a bounded size, whatever their bytes. Owns
also that the failure of the program ends the connection, and the other way round. Imported only where a server is used,
since the library is optional.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, TransportOptions
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from llm_do_temporal.activities.external_answers import MOST_MESSAGE_BYTES
from llm_do_temporal.activities.external_failures import ServerNote
from llm_do_temporal.activities.external_wire import UnreadableLine

LEAVING_SECONDS = 2.0
"""Seconds for a program to end by itself once its standard input is closed, and again once it is told to end."""
_LAST_ANSWER_SECONDS = 0.5
"""Seconds for what a program that failed has written before; a process that it left may hold its output for ever."""
_LOOK_SECONDS = 0.05
_MOST_QUOTED = 64 * 1024
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
Received = SessionMessage | Exception


class Program(ClientTransport):
    """Transport of a server that is started for one connection."""

    def __init__(
        self, command: tuple[str, ...], environment: dict[str, str], folder: Path, stderr: TextIO, note: ServerNote
    ) -> None:
        """`note` is told how the program ends where it ends by itself."""
        self._command = command
        self._environment = environment
        self._folder = folder
        self._stderr = stderr
        self._note = note

    @asynccontextmanager
    async def connect_session(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, transport_options: TransportOptions | None = None, **session: Any
    ) -> AsyncGenerator[Any]:
        """Start the program and yield a session with it; end the program after that. Raises OSError."""
        kind = (transport_options or TransportOptions()).session_class
        process = await anyio.open_process(
            list(self._command),
            stderr=self._stderr,
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        give, received = anyio.create_memory_object_stream[Received](0)
        sent, take = anyio.create_memory_object_stream[SessionMessage](0)
        ended = anyio.Event()
        async with anyio.create_task_group() as tasks:
            try:
                tasks.start_soon(_read, process, process.stdout, give, ended)
                tasks.start_soon(_write, process.stdin, take, give, ended)
                async with kind(received, sent, **session) as connected:
                    yield connected
            finally:
                with anyio.CancelScope(shield=True):
                    left = ended.is_set()
                    code = await _end(process, process.stdin)
                    if left and code is not None:
                        self._note.ended(code)
                tasks.cancel_scope.cancel()
                for stream in (give, received, sent, take):
                    stream.close()


async def _read(
    process: Process, output: ByteReceiveStream, give: MemoryObjectSendStream[Received], ended: anyio.Event
) -> None:
    """Hand on each line of the program, until it ends or has failed."""
    async with give:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_failure, process, tasks.cancel_scope)
            with suppress(*_GONE):
                async for line, size in _lines(output):
                    await give.send(_message(line, size))
            tasks.cancel_scope.cancel()
        ended.set()
    # A program that is still writing when nobody listens any more could not end.
    with suppress(*_GONE, anyio.EndOfStream):
        while True:
            await output.receive()


async def _until_failure(process: Process, scope: anyio.CancelScope) -> None:
    # A program that ends well may be a launcher, and what it launched goes on.
    if await _exit_code(process):
        await anyio.sleep(_LAST_ANSWER_SECONDS)
        scope.cancel()


async def _lines(output: ByteReceiveStream) -> AsyncGenerator[tuple[bytes, int]]:
    """Yield the lines of an output with their sizes; of one that is too long, the beginning alone, perhaps repeated."""
    parts: list[bytes] = []
    size = 0
    async for chunk in output:
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            yield b"".join((*parts, end)), size + len(end)
            parts, size = [], 0
        size += len(rest)
        parts.append(rest)
        if size > MOST_MESSAGE_BYTES:
            parts = [b"".join(parts)[:_MOST_QUOTED]]
            # A line may have no end.
            yield parts[0], size
            size = 0
    if any(parts):
        yield b"".join(parts), size


def _message(line: bytes, size: int) -> Received:
    text = line.decode("utf-8", "replace")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError:
        return UnreadableLine(text, size)


async def _write(
    stdin: ByteSendStream,
    take: MemoryObjectReceiveStream[SessionMessage],
    give: MemoryObjectSendStream[Received],
    ended: anyio.Event,
) -> None:
    """Write each message; where the program no longer reads, end the connection."""
    try:
        async with take:
            async for item in take:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(f"{text}\n".encode())
    except _GONE:
        ended.set()
        give.close()


async def _end(process: Process, stdin: ByteSendStream) -> int | None:
    """End the program. Return its status where closing its standard input was enough; else None."""
    with suppress(*_GONE):
        await stdin.aclose()
    with anyio.move_on_after(LEAVING_SECONDS):
        await _exit_code(process)
    status = process.returncode
    if status is None:
        await terminate_posix_process_tree(process, LEAVING_SECONDS)
    with anyio.move_on_after(LEAVING_SECONDS):
        await _exit_code(process)
    # A process that it left may hold its output; asyncio has no other way to close this end.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    return status


async def _exit_code(process: Process) -> int:
    """Return the status of the program once it ends, whoever still holds its output."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio's own wait is for the end of the output, too
        await anyio.sleep(_LOOK_SECONDS)
    return process.returncode
