"""Proxy in front of the Temporal UI of the embedded server, which itself answers any caller under any name.

Passes on requests of a person's browser that come from the UI's own pages. Must not be served beyond this machine.
"""

from __future__ import annotations

import httpx2
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from llm_do_temporal.ui.http_server import (
    SAFE_METHODS,
    BoundServer,
    OnlyByName,
    called_by,
    is_from_elsewhere,
    is_own_page,
    listen,
    own_hosts,
    shown_address,
)

MAX_PROXIED_BYTES = 8 << 20
"""Largest body that is passed on; more than the server takes in one message."""
_LOOPBACK = "127.0.0.1"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ANSWER_SECONDS = 90
"""Patience with the UI, which waits most of this time for a query of a workflow."""
_OF_ONE_CONNECTION = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding")
)
_NOT_PASSED_ON = _OF_ONE_CONNECTION | {"host", "upgrade", "content-length", "origin", "referer"}


class TemporalUi(BoundServer):
    """The Temporal UI at an address that is held from the beginning. Raises UsageError if it cannot be had."""

    def __init__(self, port: int) -> None:
        super().__init__(listen(_LOOPBACK, port, what="the Temporal UI", flags="--ui-port"))
        self.address = shown_address(_LOOPBACK, self.port)

    async def serve(self, hidden: str) -> None:
        """Show the UI that listens at `hidden`, a `host:port`, until `stop` is called."""
        # Proxies that variables name are for other places.
        async with httpx2.AsyncClient(base_url=f"http://{hidden}", trust_env=False, timeout=_ANSWER_SECONDS) as client:
            await self._answer(build_ui_app(client, own_hosts(_LOOPBACK, self.port)))


def build_ui_app(client: httpx2.AsyncClient, hosts: tuple[str, ...]) -> Starlette:
    """Return the proxy as an ASGI application; `client` is bound to the UI itself, `hosts` are the proxy's names."""

    async def answer(request: Request) -> Response:
        return _refusal(request, hosts) or await _passed_on(request, client)

    return Starlette(
        routes=[Route("/{path:path}", answer, methods=list(_METHODS))],
        middleware=[Middleware(OnlyByName, hosts=hosts)],
    )


def _refusal(request: Request, hosts: tuple[str, ...]) -> Response | None:
    """Return the refusal of a request that comes from a wrong place; None if it may pass."""
    host = called_by(request.headers, hosts) or ""
    if request.method not in SAFE_METHODS and not is_own_page(request.headers, host):
        return PlainTextResponse("This was not sent from a page of this address.\n", 403)
    if is_from_elsewhere(request.headers):
        return PlainTextResponse("This was asked for by a page of another site.\n", 403)
    return None


async def _passed_on(request: Request, client: httpx2.AsyncClient) -> Response:
    target: bytes = request.scope["raw_path"]
    if not target.startswith(b"/"):
        # `@elsewhere/` after the address of the UI would be an address elsewhere.
        return PlainTextResponse("This is no path.\n", 400)
    query: bytes = request.scope["query_string"]
    url = client.base_url.copy_with(raw_path=target + (b"?" + query if query else b""))
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_PROXIED_BYTES:
            return PlainTextResponse("Too much was sent.\n", 413)
    headers = [(name, value) for name, value in request.headers.raw if name.decode("latin-1") not in _NOT_PASSED_ON]
    try:
        outgoing = client.build_request(request.method, url, headers=headers, content=bytes(body) if body else None)
        answer = await client.send(outgoing, stream=True)
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return PlainTextResponse("The Temporal UI does not answer.\n", 502)
    passed = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
    passed.raw_headers = [
        (name.lower(), value)
        for name, value in answer.headers.raw
        if name.decode("latin-1").lower() not in _OF_ONE_CONNECTION
    ]
    passed.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    passed.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    passed.headers["Referrer-Policy"] = "same-origin"
    return passed
