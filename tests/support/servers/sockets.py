"""Requests as bytes, to a server at a real port: what no client library would send."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from starlette.types import ASGIApp

from llm_do_temporal.ui.http_server import HttpServer, listen
from tests.support.patience import PATIENCE_SECONDS


@asynccontextmanager
async def serving(app: ASGIApp, *, kept_bytes: int | None = None) -> AsyncGenerator[int]:
    """The port at which the application is served, by the server that the page has.

    `kept_bytes` is the number of bytes that the system keeps of what nobody reads; None: as it likes.
    """
    held = listen("127.0.0.1", 0, what="a test")
    if kept_bytes is not None:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kept_bytes)
    port = int(held.getsockname()[1])
    server = HttpServer(app)
    task = asyncio.create_task(server.serve(sockets=[held]))
    try:
        yield port
    finally:
        server.should_exit = True
        await task


async def ask(port: int, request: bytes, host: str = "127.0.0.1") -> bytes:
    """Everything that is answered until the server closes the connection. Raises TimeoutError where it does not."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        with suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        return await everything(reader)
    finally:
        writer.close()


async def everything(reader: asyncio.StreamReader) -> bytes:
    """What is answered until the connection ends. Raises TimeoutError where it does not."""
    answer = b""
    with suppress(ConnectionError):
        while chunk := await asyncio.wait_for(reader.read(65_536), PATIENCE_SECONDS):
            answer += chunk
    return answer


def request(method: str, target: str, *headers: tuple[str, str], body: bytes = b"") -> bytes:
    """A request of HTTP/1.1 with these headers and no others, after which the connection ends."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def status_of(answer: bytes) -> int:
    """The status of an answer; 0 where there was none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def http_reply(port: int, path: str) -> tuple[int, str]:
    """Return status and text of a reply on this machine; the status is 0 where no server listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
