"""Messages of MCP servers, before the protocol's library reads them.

Owns that one tool that cannot be read takes no other tool away, that an answer whose meaning is plain is read, and that
what a server sends unasked costs nothing. Called for each connection; imported only where a server is used, since the
library is optional.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from fastmcp.client.transports.base import TransportOptions, VersionAwareClientSession
from mcp.shared.message import SessionMessage
from mcp.types import (
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
    MOST_MESSAGE_BYTES,
    Prose,
    cut_answer,
    read_message,
    readable_result,
)
from llm_do_temporal.activities.external_failures import ServerNote
from llm_do_temporal.activities.external_http import client_of_server
from llm_do_temporal.activities.external_output import logged
from llm_do_temporal.activities.external_schemas import LEFT_OUT

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
