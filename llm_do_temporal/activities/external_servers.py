"""MCP servers: their transports, and their messages before the protocol's library reads them.

Owns the largest size of bodies and lines, that no call is sent twice, which statuses refuse a call, that the failure
of a program ends the connection, and the other way round. Owns also that one tool that cannot be read takes no other
tool away, that an answer is read where its meaning is plain, and that messages which a server sends unasked cost
nothing. Imported only where a server is used, since the library is optional.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TextIO, cast

import anyio
import httpx2
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, TransportOptions, VersionAwareClientSession
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared._httpx_utils import (
    MCP_DEFAULT_SSE_READ_TIMEOUT,
    MCP_DEFAULT_TIMEOUT,
    next_request_within_origin,
)
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from llm_do_temporal.activities.external_answers import (
    LEFT_OUT,
    MOST_MESSAGE_BYTES,
    Prose,
    ServerNote,
    cut_answer,
    logged,
    read_message,
    readable_result,
)

_MOVED = (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT)
"""Statuses that ask for the same request at another address."""
_REFUSED = frozenset((*_MOVED, 401, 403, 405, 407, 411, 413, 414, 415, 421, 426, 428, 429, 431))
"""Statuses by which HTTP refuses a request before anything is carried out."""
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout)
"""Errors of a connection that was never made."""


class _Client(httpx2.AsyncClient):
    """Client of one server, which knows to what address the server has moved.

    A call that is refused, or that cannot be sent, has an answer that says so. No call is sent on to another address.
    """

    def __init__(self, note: ServerNote, **options: Any) -> None:
        super().__init__(**options)
        self.max_redirects = 1
        self._note = note
        self._moved: dict[httpx2.URL, httpx2.URL] = {}

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """See AsyncClient."""
        request.url = self._moved.get(request.url, request.url)
        is_call = request.method == "POST" and _is_call(request)
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            self._note.broken(str(error), sent=not isinstance(error, _UNSENT))
            if is_call and isinstance(error, _UNSENT):
                return _refusal(request, self._note.text)
            raise
        if is_call and response.status_code in _REFUSED:
            return await self._refused(request, response)
        moved = next_request_within_origin(response) if response.status_code in _MOVED else None
        if moved is not None:
            self._moved[request.url] = moved.url
        return response

    async def _refused(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return the refusal of a call: in the server's own words, where its answer has some."""
        answer = None
        try:
            # Other bodies have no bound, and say nothing of the call.
            if isinstance(response.stream, _Body):
                answer = jsonrpc_message_adapter.validate_json(await response.aread(), by_name=False)
        except (httpx2.HTTPError, httpx2.StreamError, ValidationError):
            pass
        finally:
            await response.aclose()
        return _refusal(request, answer.error.message if isinstance(answer, JSONRPCError) else self._note.text)


def _is_call(request: httpx2.Request) -> bool:
    """Return whether a request is the call of a tool."""
    try:
        asked = jsonrpc_message_adapter.validate_json(request.content, by_name=False)
    except (ValidationError, httpx2.RequestNotRead):
        return False
    return isinstance(asked, JSONRPCRequest) and asked.method == "tools/call"


def _refusal(request: httpx2.Request, words: str | None) -> httpx2.Response:
    """Return the answer of a server that refuses a request."""
    error = ErrorData(code=INVALID_REQUEST, message=words or "refused")
    body = JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json(by_alias=True)
    kind = {"Content-Type": "application/json"}
    return httpx2.Response(HTTPStatus.BAD_REQUEST, headers=kind, content=body.encode(), request=request)


def client_of_server(
    note: ServerNote,
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    **_: Any,
) -> httpx2.AsyncClient:
    """Return a client whose responses are repaired, and their statuses noted.

    Bodies that are compressed all the same are left as they are.
    """

    async def noted(response: httpx2.Response) -> None:
        # Servers answer requests of other methods with 405 where all is well.
        if response.request.method == "POST":
            note.answered(response.status_code)

    return _Client(
        note,
        headers={"Accept-Encoding": "identity", **(headers or {})},
        timeout=timeout or httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT),
        auth=auth,
        event_hooks={"response": [noted, _repair]},
    )


async def _repair(response: httpx2.Response) -> None:
    kind = response.headers.get("content-type", "").lower()
    stream = cast("httpx2.AsyncByteStream", response.stream)
    if "content-encoding" in response.headers:
        return
    if kind.startswith("application/json"):
        response.stream = _Body(stream, response.request)
    elif kind.startswith("text/event-stream"):
        response.stream = _Events(stream)


class _Body(httpx2.AsyncByteStream):
    """Body that is one message. Raises StreamError where it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._stream = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MOST_MESSAGE_BYTES:
                raise httpx2.StreamError(f"an answer has more than {MOST_MESSAGE_BYTES} bytes")
            parts.append(part)
        yield _answer_to(self._request, _repaired(b"".join(parts)))

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Events(httpx2.AsyncByteStream):
    """Body that is a stream of events, each with a message. Events without one are left out."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines: list[bytes] = []
        parts: list[bytes] = []
        size = 0
        prose = Prose()
        async for part in self._stream:
            size += len(part)
            if size > MOST_MESSAGE_BYTES:
                raise httpx2.StreamError(f"an event has more than {MOST_MESSAGE_BYTES} bytes")
            *ended, rest = part.split(b"\n")
            for end in ended:
                line = b"".join((*parts, end)).removesuffix(b"\r")
                parts = []
                lines.append(line)
                if not line:
                    event, is_prose = _repaired_event(lines)
                    if not is_prose:
                        prose = Prose()
                    elif prose.is_too_much(size):
                        raise httpx2.StreamError("too many events in a row are no messages")
                    yield event
                    lines, size = [], 0
            parts.append(rest)
        yield b"\n".join((*lines, b"".join(parts)))

    async def aclose(self) -> None:
        await self._stream.aclose()


def _repaired_event(lines: list[bytes]) -> tuple[bytes, bool]:
    """Return an event, given as its lines with the empty one at its end, and whether it has a text and no message."""
    is_prose = False
    data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))
    if data.strip():
        found = _repaired(data)
        told = found is not data or cut_answer(data.decode("utf-8", "replace")) is not None
        is_prose = not told
        kept = [line for line in lines[:-1] if not line.startswith(b"data")]
        lines = [*kept, *(b"data:" + line for line in found.split(b"\n") if told), b""]
    return b"\n".join(lines) + b"\n", is_prose


def _repaired(data: bytes) -> bytes:
    """Return a message as the library reads it, or the data as they are where they are no message."""
    text = data.decode("utf-8", "replace")
    try:
        jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError:
        message = read_message(text)
        return data if message is None else json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return text.encode()


def _answer_to(request: httpx2.Request, data: bytes) -> bytes:
    """Return the answer to a request with the id of that request; nothing for another message, as an unreadable one."""
    try:
        asked = jsonrpc_message_adapter.validate_json(request.content, by_name=False)
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except (ValidationError, httpx2.RequestNotRead):
        return data
    if not isinstance(asked, JSONRPCRequest):
        return data
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return b""
    message.id = asked.id
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


MOST_LOGGED = 5
"""Most lines and log messages of one connection that are logged; the others are counted."""
MOST_REQUESTS = 1000
"""Most requests of a server to its client in one connection; others are not answered."""
_MOST_LOGGED_CHARS = 2000
_QUIET = ("debug", "info", "notice")
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_log = logging.getLogger(__name__)


class UnreadableLine(ValueError):
    """Line of a server that is no message: its text, or the beginning of that, and its size in bytes."""

    def __init__(self, line: str, size: int) -> None:
        super().__init__("it is no message")
        self.line = line
        self.size = size


def read_leniently(transport: Any, name: str, note: ServerNote) -> None:
    """Let each session of the transport read messages that can be repaired. `name` is the toolset's, for the log.

    HTTP statuses are written into `note`.
    """
    if hasattr(transport, "httpx_client_factory"):
        transport.httpx_client_factory = partial(client_of_server, note)
        transport.max_sse_event_size = MOST_MESSAGE_BYTES
    connect = transport.connect_session

    @asynccontextmanager
    async def connect_session(
        *, transport_options: TransportOptions | None = None, **session: Any
    ) -> AsyncGenerator[Any]:
        unasked = _Unasked(name)
        kind: Any = partial(_Session, unasked)
        options = replace(transport_options or TransportOptions(), session_class=kind)
        try:
            async with connect(transport_options=options, **session) as connected:
                yield connected
        finally:
            unasked.end()

    transport.connect_session = connect_session


class _Unasked:
    """Texts that a server sent and that are no answers. The log gets the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def add(self, level: int, what: str, text: str) -> None:
        self._count += 1
        if self._count <= MOST_LOGGED:
            said = logged(text[:_MOST_LOGGED_CHARS])
            _log.log(level, "the server of toolset %s %s: %s", self._name, what, said)

    def end(self) -> None:
        if self._count > MOST_LOGGED:
            more = self._count - MOST_LOGGED
            _log.warning("the server of toolset %s sent %d more such texts, which are left out", self._name, more)


class _Session(VersionAwareClientSession):
    def __init__(self, unasked: _Unasked, read_stream: Any, write_stream: Any, **options: Any) -> None:
        asked: dict[str, str] = {}
        super().__init__(_Messages(read_stream, asked, unasked), _Requests(write_stream, asked), **options)


class _Stream:
    """Stream that is used as it is where nothing is said."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)


class _Requests(_Stream):
    """Stream of messages to a server, which keeps the methods of requests by their ids."""

    def __init__(self, stream: Any, asked: dict[str, str]) -> None:
        super().__init__(stream)
        self._asked = asked

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._asked[str(item.message.id)] = item.message.method
        await self._stream.send(item)


class _Messages(_Stream):
    """Stream of messages from a server, each repaired; those that nobody here waits for are left out."""

    def __init__(self, stream: Any, asked: dict[str, str], unasked: _Unasked) -> None:
        super().__init__(stream)
        self._asked = asked
        self._unasked = unasked
        self._requests = 0
        self._prose = Prose()

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = self._repaired(await self._stream.receive())
            if item is not None:
                return item

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item = self._repaired(await self._stream.__anext__())
            if item is not None:
                return item

    def _repaired(self, received: SessionMessage | Exception) -> SessionMessage | Exception | None:
        unreadable = isinstance(received, ValidationError | UnreadableLine)
        item = self._reread(received) if unreadable else received
        if item is not None:
            self._prose = Prose()
        if not isinstance(item, SessionMessage):
            return item
        message = item.message
        if isinstance(message, JSONRPCNotification):
            if message.method == "notifications/message":
                params = message.params or {}
                level = logging.INFO if params.get("level") in _QUIET else logging.WARNING
                self._unasked.add(level, "logs", str(params.get("data")))
            return None
        if isinstance(message, JSONRPCRequest):
            self._requests += 1
            return item if self._requests <= MOST_REQUESTS else None
        if message.id is None and len(self._asked) == 1:
            message.id = int(next(iter(self._asked)))
        method = self._asked.pop(str(message.id), "")
        if isinstance(message, JSONRPCResponse):
            message.result = _readable(method, message.result)
        return item

    def _reread(self, error: ValidationError | UnreadableLine) -> SessionMessage | Exception | None:
        """Return the message in a line that the library cannot read, an error for an answer that is cut, or None."""
        line: Any = error.line if isinstance(error, UnreadableLine) else error.errors()[0].get("input")
        if not isinstance(line, str | bytes):
            return None
        text = line if isinstance(line, str) else line.decode("utf-8", "replace")
        value = read_message(text)
        if value is not None:
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_python(value, by_name=False))
            except ValidationError:
                pass
        answered = cut_answer(text)
        if answered is not None and str(answered) in self._asked:
            return _unreadable(answered)
        if text.strip():
            self._unasked.add(logging.WARNING, "wrote a line that is no message", text)
        if self._prose.is_too_much(error.size if isinstance(error, UnreadableLine) else len(text)):
            # The request that has waited longest ends without an answer.
            waiting = next(iter(self._asked), None)
            return None if waiting is None else _unreadable(int(waiting))
        return None


def _unreadable(request: int) -> SessionMessage:
    """Return the error that stands for the answer to a request."""
    said = ErrorData(code=PARSE_ERROR, message="an answer that cannot be read")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=said))


def _readable(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request as the library reads it."""
    if method == "tools/call":
        return readable_result(result)
    tools: Any = result.get("tools")
    if method == "tools/list" and isinstance(tools, list):
        return {
            **result,
            "tools": [readable_tool(tool, place) for place, tool in enumerate(cast("list[Any]", tools), 1)],
        }
    return result


def readable_tool(tool: Any, place: int) -> dict[str, Any]:
    """Return a tool of a listing as the library reads it; with `LEFT_OUT` in its schema where it cannot be offered.

    `place` counts the tools from 1. The schema of results is left out: a result that does not fit it is a result.
    """
    if not isinstance(tool, dict) or not isinstance(cast("dict[str, Any]", tool).get("name"), str):
        return {"name": f"number {place}", "inputSchema": {"type": "object", LEFT_OUT: "it has no name"}}
    given = cast("dict[str, Any]", tool)
    found: dict[str, Any] = {"name": given["name"], "inputSchema": _arguments(given.get("inputSchema"))}
    if isinstance(given.get("description"), str):
        found["description"] = given["description"]
    if isinstance(given.get("_meta"), dict):
        found["_meta"] = given["_meta"]
    hints = given.get("annotations")
    if isinstance(hints, dict):
        known = cast("dict[str, Any]", hints)
        found["annotations"] = {name: known[name] for name in _HINTS if isinstance(known.get(name), bool)}
    return found


def _arguments(schema: Any) -> dict[str, Any]:
    """Return the schema of a tool's arguments, which are an object whatever it leaves open."""
    if schema is None or schema is True:
        return {"type": "object"}
    if not isinstance(schema, dict):
        return {"type": "object", LEFT_OUT: "its schema is not an object"}
    given = cast("dict[str, Any]", schema)
    kind: Any = given.get("type", "object")
    if kind == "object" or kind is None or (isinstance(kind, list) and "object" in kind):
        return {**given, "type": "object"}
    return {"type": "object", LEFT_OUT: "its arguments are not an object"}


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
