"""Serving the page: its address, who may come in there, and the server itself.

Called by the commands. Nothing is served beyond this machine unless somebody said how people are known.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import uvicorn

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.ui.access import Access, ProxyAccess, TokenAccess, new_token, read_token_file
from llm_do_temporal.ui.app import build_app
from llm_do_temporal.ui.settings import UiSettings

DEFAULT_PORT = 8234
_STOP_SECONDS = 2
"""How long a browser that still reads may hold up the end."""


@dataclass(frozen=True)
class PageOptions:
    """How the page was asked for."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: the usual one, or any other where that is in use. 0: any."""
    token_file: Path | None = None
    trusted_header: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()


class PageServer:
    """The page at an address that it holds from the beginning. Raises UsageError for options that cannot be used."""

    def __init__(self, options: PageOptions) -> None:
        self._access, token = _access(options)
        _check_names(options)
        self._socket = _bound(options)
        self._server: _Server | None = None
        self._stopped = False
        port = int(self._socket.getsockname()[1])
        self._hosts = _hosts(options, port)
        shown = f"[{options.host}]" if ":" in options.host else options.host
        self.address = f"http://{options.allowed_hosts[0] if _is_any(options.host) else shown}:{port}"
        self.link = self.address + (f"/?token={quote(token)}" if token else "/")
        """What to open in a browser; carries the token where it is a random one."""

    async def serve(
        self, client: LlmDoClient, *, workshop: Path | None, temporal_ui: str | None, namespace: str = "default"
    ) -> None:
        """Answer until `stop` is called."""
        settings = UiSettings(self._access, self._hosts, workshop, temporal_ui, namespace)
        config = uvicorn.Config(
            build_app(settings, client),
            log_level="error",
            # Addresses may carry tokens; and who calls is who is connected, whatever headers say.
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        if self._stopped:
            return
        self._server = _Server(config)
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Ask the server to leave."""
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True
        else:
            self._socket.close()


class _Server(uvicorn.Server):
    """Leaves signals to the command that runs it."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


def _access(options: PageOptions) -> tuple[Access, str | None]:
    """Who may come in, and the token for the first link where one was made up."""
    if (options.trusted_header is None) != (not options.trusted_proxies):
        raise UsageError(
            "--trusted-header and --trusted-proxy need each other: a header counts only from a proxy that is known",
            next_step="Like: --trusted-header X-Forwarded-User --trusted-proxy 10.0.0.5",
        )
    if options.trusted_header is not None and options.token_file is not None:
        raise UsageError("--token-file and --trusted-header are two ways to know people; choose one")
    if options.trusted_header is not None:
        return ProxyAccess(options.trusted_header, tuple(_ip(one) for one in options.trusted_proxies)), None
    if options.token_file is not None:
        return TokenAccess(read_token_file(options.token_file)), None
    if not _is_loopback(options.host):
        raise UsageError(
            f"the page would be open to others at '{options.host}', and nothing says who they are",
            next_step="Give --token-file FILE (lines `name: token`), or --trusted-header and --trusted-proxy.",
        )
    token = new_token()
    return TokenAccess({login_name() or "somebody": token}), token


def _check_names(options: PageOptions) -> None:
    if _is_any(options.host) and not options.allowed_hosts:
        raise UsageError(
            f"at '{options.host}' the page cannot tell which names are its own",
            next_step="Name those that people use: --allowed-host approvals.example.com",
        )


def _hosts(options: PageOptions, port: int) -> tuple[str, ...]:
    names = {options.host}
    if _is_loopback(options.host):
        names |= {"127.0.0.1", "localhost", "::1"}
    own = {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}
    return tuple(sorted(own | {name.lower() for name in options.allowed_hosts}))


def _bound(options: PageOptions) -> socket.socket:
    wanted = DEFAULT_PORT if options.port is None else options.port
    if not 0 <= wanted < 65_536:
        raise UsageError(f"{wanted} is not a port; ports go from 1 to 65535")
    try:
        return _listen(options.host, wanted)
    except OSError as error:
        if options.port is None:
            return _listen(options.host, 0)
        raise UsageError(
            f"the page cannot be served at '{options.host}' port {wanted}: {error.strerror or error}",
            next_step="Choose another with --host and --port.",
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(f"--trusted-proxy '{text}' is not an IP address") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host
