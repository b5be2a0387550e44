"""Servers at an address: the limits of their connections, the socket, and the names by which they are called.

Uvicorn limits the time between two requests only. Connections here have limits for the first byte, the headers, the
body and the answer; a peer that does not finish its request, or does not read its answer, is cut off.

A page of another site can send requests to this machine, and a name of that site can be made to mean this machine. But
it cannot send another `Host` than its own name, another `Origin` or another `Sec-Fetch-Site`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from llm_do_temporal.errors import UsageError

HEADER_SECONDS = 10.0
"""Longest time from the opening of a connection, or the first byte of a further request, to the end of the headers."""
BODY_SECONDS = 20.0
"""Time for a body to arrive; bytes that arrive buy more time."""
BODY_BYTES_PER_SECOND = 8 << 10
"""Slowest rate of a body once `BODY_SECONDS` are over: a slow mobile network is faster."""
LONGEST_BODY_SECONDS = 900.0
UNREAD_SECONDS = 60.0
"""Time that an answer waits for a reader that takes nothing."""
MAX_HEADER_BYTES = 32 << 10
MAX_CONNECTIONS = 400
"""Connections at once: a process may usually have 1,024 files open. A further one closes the longest waiting."""


class PatientConnection(H11Protocol):
    """An HTTP/1.1 connection with limits on how long its other end may take."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: asyncio.TimerHandle | None = None
        self._waiting_for = ""
        self._unread: asyncio.TimerHandle | None = None
        self._body_begun = 0.0
        self._body_bytes = 0
        self.opened = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for the headers; where there is no room, close the connection that has waited longest."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > MAX_CONNECTIONS:
            _longest_waiting(cast("Iterable[PatientConnection]", self.connections)).end()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait_for("", 0)
        self._read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived; they do not move the limit for the missing ones."""
        if self._waiting_for == "body":
            self._body_bytes += len(data)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, after an answer."""
        super().on_response_complete()
        self._look()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which no further request comes."""
        super().timeout_keep_alive_handler()
        self._look()

    def pause_writing(self) -> None:
        """Begin to wait for the other end to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.end)

    def resume_writing(self) -> None:
        """Stop waiting for the other end to read."""
        super().resume_writing()
        self._read()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered: the connection waits for one, or for the rest of one."""
        return self._is_answered or self._waiting_for == "body"

    @property
    def _is_answered(self) -> bool:
        """Whether every request that arrived has its answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def end(self) -> None:
        """Close the connection at once, with the rest of an answer unsent."""
        self.transport.abort()

    def _look(self) -> None:
        state = self.conn.their_state
        if self.transport.is_closing():
            self._wait_for("reader", UNREAD_SECONDS)
        elif state is h11.SEND_BODY:
            if self._waiting_for != "body":
                self._body_begun, self._body_bytes = self.loop.time(), 0
                self._wait_for("body", BODY_SECONDS)
        elif (
            state is h11.IDLE
            and self._is_answered
            and (self.timeout_keep_alive_task is None or self.conn.trailing_data[0])
        ):
            # Between requests Uvicorn's own limit holds, until something arrives.
            self._wait_for("headers", HEADER_SECONDS)
        else:
            self._wait_for("", 0)

    def _wait_for(self, what: str, seconds: float) -> None:
        if what == self._waiting_for:
            return
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting_for = what
        self._waiting = self.loop.call_later(seconds, self._too_long) if what else None

    def _too_long(self) -> None:
        if self._waiting_for == "body":
            earned = min(BODY_SECONDS + self._body_bytes / BODY_BYTES_PER_SECOND, LONGEST_BODY_SECONDS)
            left = self._body_begun + earned - self.loop.time()
            if self.flow.read_paused:
                # The slow end is this one.
                left = max(left, BODY_SECONDS)
            if left > 0:
                self._waiting = self.loop.call_later(left, self._too_long)
                return
        self.end()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _longest_waiting(connections: Iterable[PatientConnection]) -> PatientConnection:
    """Return the oldest connection on which no request is being answered; without any, the newest connection."""
    known = list(connections)
    idle = [connection for connection in known if connection.is_idle]
    return min(idle, key=lambda one: one.opened) if idle else max(known, key=lambda one: one.opened)


_STOP_SECONDS = 2
"""Time that a browser which still reads may hold up the end."""


class HttpServer(uvicorn.Server):
    """Answers until `should_exit` is set."""

    def __init__(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app,
            log_level="error",
            # Addresses may carry tokens; and the caller is the connected peer, whatever headers say.
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_STOP_SECONDS,
            # Named, so that other installed packages do not change how requests are read.
            http=PatientConnection,
            ws="none",
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


class BoundServer:
    """A server whose address is held from the beginning, before there is anything to answer with."""

    def __init__(self, listening: socket.socket) -> None:
        """`listening` is closed when the server ends, or when it is stopped before it began."""
        self._socket = listening
        self._server: HttpServer | None = None
        self._stopped = False

    @property
    def port(self) -> int:
        """Port that the server listens at."""
        return int(self._socket.getsockname()[1])

    async def _answer(self, app: ASGIApp) -> None:
        """Answer until `stop` is called; not at all if it was called before."""
        if not self._stopped:
            self._server = HttpServer(app)
            await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Ask the server to leave."""
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True
        else:
            self._socket.close()


class AppServer(BoundServer):
    """A server of any application."""

    async def serve(self, app: ASGIApp) -> None:
        """Answer until `stop` is called."""
        await self._answer(app)


def listen(host: str, port: int, *, what: str, flags: str = "--host and --port") -> socket.socket:
    """Return a listening socket for `what`, like "the page"; port 0 is any. Raises UsageError, which names `flags`."""
    if not 0 <= port < 65_536:
        raise UsageError(f"{port} is not a port; ports go from 1 to 65535")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(
            f"{what} cannot be served at '{host}' port {port}: {error.strerror or error}",
            next_step=f"Choose another with {flags}.",
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_any(host: str) -> bool:
    """Whether `host` stands for every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def check_names(host: str, allowed: Collection[str], *, what: str) -> None:
    """Raise UsageError if `what`, like "the page", cannot know the names by which it is called."""
    if is_any(host) and not allowed:
        raise UsageError(
            f"at '{host}' {what} cannot tell which names are its own",
            next_step="Name those that people use: --allowed-host approvals.example.com",
        )


def shown_address(host: str, port: int) -> str:
    """Return the address to type into a browser."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


PORT = re.compile(r":([0-9]{1,5})\Z")
SAFE_METHODS = ("GET", "HEAD")
_MISDIRECTED = "This server does not answer under the name it was called by.\n"
_ELSEWHERE = ("cross-site", "same-site")


def own_hosts(host: str, port: int, *more: str) -> tuple[str, ...]:
    """Return the values of the Host header that mean a server at this address, and `more` names, at any port."""
    names = {host.lower()}
    if is_loopback(host):
        names |= {"127.0.0.1", "localhost", "::1"}
    own = {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}
    if port in (80, 443):
        # Browsers leave these ports out.
        own |= {f"[{name}]" if ":" in name else name for name in names}
    return tuple(sorted(own | {name.lower() for name in more}))


def called_by(headers: Headers, hosts: Collection[str]) -> str | None:
    """Return the name by which a request calls the server: one of `hosts`, alone or with a port. None for any other.

    Two names count as none: a proxy in between may have read the other one.
    """
    given = headers.getlist("host")
    host = given[0].lower() if len(given) == 1 else ""
    return host if host in hosts or PORT.sub("", host) in hosts else None


def is_own_page(headers: Headers, host: str) -> bool:
    """Whether a request names a page of the server called `host` as its origin; every change must."""
    origins = headers.getlist("origin")
    return len(origins) == 1 and origins[0].lower() in (f"http://{host}", f"https://{host}")


def is_from_elsewhere(headers: Headers) -> bool:
    """Whether a browser says that a page of another site made it send the request; following a link does not count."""
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site") in _ELSEWHERE and not followed


class OnlyByName:
    """ASGI middleware: refuses requests that call the server by a name that is not its own."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], refused: ASGIApp | None = None) -> None:
        """Guard `app`; `refused` answers the others, with 421; None: in a line of text."""
        self._app = app
        self._hosts = frozenset(hosts)
        self._refused = refused or PlainTextResponse(_MISDIRECTED, 421)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and called_by(Headers(scope=scope), self._hosts) is None:
            await self._refused(scope, receive, send)
            return
        await self._app(scope, receive, send)
