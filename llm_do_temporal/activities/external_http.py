"""Requests to MCP servers over HTTP, and their answers before the protocol's library reads them.

Owns the largest size of bodies, that a body whose meaning is plain is read, that no call is sent twice, and which
statuses refuse a call. Imported only where a server is used, since the library is optional.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, cast

import httpx2
from mcp.shared._httpx_utils import (
    MCP_DEFAULT_SSE_READ_TIMEOUT,
    MCP_DEFAULT_TIMEOUT,
    next_request_within_origin,
)
from mcp.types import (
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from llm_do_temporal.activities.external_answers import MOST_MESSAGE_BYTES, Prose, cut_answer, read_message
from llm_do_temporal.activities.external_failures import ServerNote

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
