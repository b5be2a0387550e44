"""Bodies that MCP servers answer over HTTP, before the protocol's library reads them.

Owns their largest size, and that a body whose meaning is plain is read. Imported only where a server is used, since the
library is optional.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from llm_do_temporal.activities.external_answers import MOST_MESSAGE_BYTES, Prose, cut_answer, read_message
from llm_do_temporal.activities.external_failures import ServerNote


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

    client = create_mcp_http_client({"Accept-Encoding": "identity", **(headers or {})}, timeout, auth)
    client.event_hooks = {"response": [noted, _repair]}
    return client


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
