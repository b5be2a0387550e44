"""Names of a server, and the pages that are its own. Used by every server here that answers browsers.

A page of another site can send requests to this machine, and a name of that site can be made to mean this machine. But
it cannot send another `Host` than its own name, another `Origin` or another `Sec-Fetch-Site`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from llm_do_temporal.ui.http_server import is_loopback

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
