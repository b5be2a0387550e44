"""Servers at an address: the socket, and a server that leaves signals to the command that runs it.

Used by the page and by the codec server.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from llm_do_temporal.errors import UsageError
from llm_do_temporal.ui.connections import MAX_HEADER_BYTES, PatientConnection

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
