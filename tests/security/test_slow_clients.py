"""Connections that send half of what they began, little by little, or too much: each of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llm_do_temporal.ui import http_server
from llm_do_temporal.ui.http_server import MAX_HEADER_BYTES
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers.sockets import ask, everything, serving, status_of

_DROP_SECONDS = 0.05
_HEAD = b"POST /read HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits."""
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "UNREAD_SECONDS", 0.5)


@pytest_asyncio.fixture
async def port(hasty: None) -> AsyncIterator[int]:
    """A server with short limits, whose `/read` reads what is sent, and `/refuse` does not."""

    async def read(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def refuse(request: Request) -> Response:
        return PlainTextResponse("no", 403)

    app = Starlette(
        routes=[
            Route("/read", read, methods=["POST"]),
            Route("/refuse", refuse, methods=["POST"]),
        ]
    )
    async with serving(app) as port:
        yield port


HALVES = {
    "nothing": b"",
    "a letter": b"P",
    "a line end": b"\r\n",
    "a method": b"POST",
    "no line end": b"POST /read HTTP/1.1",
    "a line": b"POST /read HTTP/1.1\r\n",
    "a header": _HEAD,
    "half a header": _HEAD + b"X-Long: ",
    "headers without an end": _HEAD + b"X: y\r\n" * 100,
    "no body": _HEAD + b"Content-Length: 10\r\n\r\n",
    "half a body": _HEAD + b"Content-Length: 10\r\n\r\nhalf",
    "a body of terabytes": _HEAD + b"Content-Length: 9999999999999\r\n\r\nx",
    "no chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
    "half a chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nhalf",
    "no last chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    "a trailer without an end": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n",
    "a promise to go on": _HEAD + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n",
    "a body that nobody reads": _HEAD.replace(b"read", b"refuse") + b"Content-Length: 10\r\n\r\nhalf",
    "a second request": _HEAD + b"Content-Length: 1\r\n\r\nx" + b"POST /read",
    "a second body": (_HEAD + b"Content-Length: 1\r\n\r\nx") + _HEAD + b"Content-Length: 10\r\n\r\nhalf",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "a websocket": b"GET /read HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sent", HALVES.values(), ids=HALVES.keys())
async def test_what_is_half_sent_ends(port: int, sent: bytes) -> None:
    await ask(port, sent)


DRIPS = {
    "a request line": b"POST /" + b"a" * 4_000,
    "headers": _HEAD + b"X: y\r\n" * 2_000,
    "empty lines": b"\r\n" * 2_000,
    "a body": _HEAD + b"Content-Length: 4000\r\n\r\n" + b"x" * 4_000,
    "chunks": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 2_000,
    "a body that nobody reads": _HEAD.replace(b"read", b"refuse") + b"Content-Length: 4000\r\n\r\n" + b"x" * 4_000,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sent", DRIPS.values(), ids=DRIPS.keys())
async def test_what_comes_drop_by_drop_ends(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    all_sent = False

    async def drip() -> None:
        nonlocal all_sent
        with suppress(ConnectionError):
            # The first kilobyte at once would be another request in half; each byte by itself buys nothing.
            for byte in sent:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(_DROP_SECONDS)
            all_sent = True

    dripping = asyncio.create_task(drip())
    try:
        await everything(reader)
        assert not all_sent
    finally:
        dripping.cancel()
        writer.close()


@pytest.mark.usefixtures("hasty")
async def test_an_answer_that_nobody_reads_ends() -> None:
    ended = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b"x" * (1 << 20)

    async def much(request: Request) -> Response:
        return StreamingResponse(pieces())

    app = Starlette(routes=[Route("/much", much)])

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            if scope["type"] == "http":
                ended.set()

    async with serving(watched) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
        writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        transport = writer.transport
        # The reader takes so little that the transport stops reading; the server's end is seen when it goes on.
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
        received = len(await everything(reader))
        assert received < 1_000 << 20
        transport.abort()


HUGE = {
    "a path": b"POST /" + b"a" * MAX_HEADER_BYTES,
    "a query": b"POST /read?" + b"a" * MAX_HEADER_BYTES,
    "a method": b"P" * MAX_HEADER_BYTES,
    "a name of a header": _HEAD + b"X" * MAX_HEADER_BYTES,
    "a value": _HEAD + b"X: " + b"y" * MAX_HEADER_BYTES,
    "a cookie": _HEAD + b"Cookie: " + b"llm-do-8234=x; " * (MAX_HEADER_BYTES // 15),
    "many headers": _HEAD + b"X: y\r\n" * (MAX_HEADER_BYTES // 5),
    "a chunk's name": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * MAX_HEADER_BYTES,
    "a length": _HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n",
    "two lengths": _HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length below nothing": _HEAD + b"Content-Length: -1\r\n\r\n",
    "a length and chunks": _HEAD + b"Content-Length: 5\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "zeros": b"\0" * 100_000,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sent", HUGE.values(), ids=HUGE.keys())
async def test_what_is_too_big_or_ambiguous_is_refused_and_ends(port: int, sent: bytes) -> None:
    assert status_of(await ask(port, sent)) in (0, 400, 405, 431, 501)


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /read", _HEAD, _HEAD + b"Content-Length: 9\r\n\r\nhalf"],
    ids=["idle", "a line", "headers", "a body"],
)
async def test_many_open_connections_keep_nobody_out(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    # None of them ends by itself here.
    for limit in ("HEADER_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(http_server, limit, 1_000)
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 20)
    held: list[asyncio.StreamWriter] = []
    try:
        for _ in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            held.append(writer)
        answer = await ask(port, _HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\nx")
        assert status_of(answer) == 200
    finally:
        for writer in held:
            writer.transport.abort()


@pytest.mark.thorough
@pytest.mark.control
async def test_a_slow_person_who_goes_on_is_served(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that takes longer than the limit, fast enough, and a connection that is used again."""
    # A moment in which a busy machine does nothing here must not be taken for the person's.
    monkeypatch.setattr(http_server, "HEADER_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(http_server, "BODY_SECONDS", 2)
    monkeypatch.setattr(http_server, "BODY_BYTES_PER_SECOND", 64)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    size = 16 << 10
    try:
        for _ in range(2):
            writer.write(_HEAD + b"Content-Length: " + str(size).encode() + b"\r\n\r\n")
            for _ in range(16):
                writer.write(b"x" * (size // 16))
                await asyncio.sleep(http_server.BODY_SECONDS / 14)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
            assert status_of(head) == 200
            assert await reader.readexactly(5) == b"16384"
    finally:
        writer.close()
