"""The server of the page: its address, the way to know visitors, and the server itself.

Called by the commands. Nothing is served beyond this machine unless the options say how people are known. Programs are
answered below `/api/`, by an application that is made when the first one comes: they send tokens with each request, and
have no session that another page could use.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.environment import undo_seconds
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.extension import added, installed
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.ui.access import Admission, KeptPage, LinkAccess, admitted
from llm_do_temporal.ui.content.urls import place_words
from llm_do_temporal.ui.guard import RequestGuard, answer_headers
from llm_do_temporal.ui.http_server import BoundServer, check_names, is_any, listen, own_hosts, shown_address
from llm_do_temporal.ui.pages import (
    approval,
    attachments,
    groups,
    inbox,
    run,
    runs,
    start,
)
from llm_do_temporal.ui.requests import UiSettings, error_page, sentence

API = "/api/"


class BesidePage:
    """ASGI application: the page, and beside it what answers programs."""

    def __init__(self, page: ASGIApp, api: ASGIApp) -> None:
        self._page = page
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to whichever it is for."""
        is_api = scope["type"] == "http" and scope["path"].startswith(API)
        await (self._api if is_api else self._page)(scope, receive, send)


class Late:
    """ASGI application that is made at the first request: loading it takes longer than everything else of the page."""

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._build = build
        self._made: asyncio.Task[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self._made is None:
            self._made = asyncio.create_task(asyncio.to_thread(self._build))
        made = await asyncio.shield(self._made)
        await made(scope, receive, send)


DEFAULT_PORT = 8234
_WHAT = "the page"


@dataclass(frozen=True)
class PageOptions:
    """Options of the page, as they were given."""

    host: str = "127.0.0.1"
    port: int | None = None
    """Port to listen at; None is the one of the last start, the usual one or any that is free; 0 is any."""
    admission: Admission = Admission()  # noqa: RUF009 - frozen
    allowed_hosts: tuple[str, ...] = ()
    workshop: Path | None = None
    """Workshop that keeps the key of sessions and the port, if there is one on this machine."""


class PageServer(BoundServer):
    """The page at an address that is held from the beginning. Raises UsageError for options that cannot be used."""

    def __init__(self, options: PageOptions) -> None:
        access, token = admitted(options.admission, options.host, what=_WHAT)
        check_names(options.host, options.allowed_hosts, what=_WHAT)
        self._undo_seconds = undo_seconds(os.environ)
        kept = KeptPage.of_workshop(options.workshop)
        super().__init__(_listen(options, kept.ports))
        user = access.owner(token) if token else None
        self._access = LinkAccess(user, token, kept.key, self.port) if user and token else access
        self._kept = kept if options.port is not None else kept.with_port(self.port)
        self._keeps_in = options.workshop
        self._hosts = own_hosts(options.host, self.port, *options.allowed_hosts)
        self.address = shown_address(options.allowed_hosts[0] if is_any(options.host) else options.host, self.port)
        self.link = self.address + (f"/?token={quote(token)}" if token else "/")
        """Address to open in a browser; carries the token if that is a random one."""

    def keep(self) -> None:
        """Write the key of sessions and the port into the workshop, for the next start of the page."""
        self._kept.keep(self._keeps_in)

    async def serve(
        self,
        client: LlmDoClient,
        *,
        workshop: Path | None,
        temporal_ui: str | None,
        namespace: str = "default",
        embedded: bool = False,
        build_api: Callable[[Collection[str]], ASGIApp] | None = None,
    ) -> None:
        """Answer until `stop` is called. `embedded` says whether the client's server is an embedded one.

        `build_api` makes the application that answers programs below `/api/` under the server's names; None: nothing
        does.
        """
        self.keep()
        settings = UiSettings(self._access, self._hosts, workshop, temporal_ui, namespace, embedded, self._undo_seconds)
        page = build_app(settings, client)
        await self._answer(page if build_api is None else BesidePage(page, Late(partial(build_api, self._hosts))))


def _listen(options: PageOptions, ports: tuple[int, ...]) -> socket.socket:
    """Return the socket at the port that was asked for; else at the first of these and the usual one that is free."""
    if options.port is not None:
        return listen(options.host, options.port, what=_WHAT)
    for port in (*ports, DEFAULT_PORT):
        with suppress(UsageError):
            return listen(options.host, port, what=_WHAT)
    return listen(options.host, 0, what=_WHAT)


_STATIC = Path(__file__).with_name("static")
_PAGES = (inbox, groups, approval, attachments, runs, run, start)


def build_app(settings: UiSettings, client: LlmDoClient) -> Starlette:
    """Return the page for the runs of one server. Handlers find both arguments in `request.app.state`."""
    app = Starlette(
        routes=[
            *_static_files(),
            *(route for page in _PAGES for route in page.routes),
            *added(lambda one: one.routes()),
        ],
        middleware=[Middleware(RequestGuard, settings=settings)],
        exception_handlers={HTTPException: _http_error, LlmDoError: _known_error, Exception: _unknown_error},
    )
    app.state.settings = settings
    app.state.client = client
    app.state.answered = dict[tuple[str, str, str], DecisionKind | None]()
    app.state.streams = set[object]()
    app.state.bulk_decisions = groups.BulkDecisions()
    return app


def _static_files() -> Iterator[Mount]:
    for extension in installed():
        folder = extension.folder("static")
        if folder is not None:
            yield Mount(f"/static/{extension.name}", StaticFiles(directory=folder))
    yield Mount("/static", StaticFiles(directory=_STATIC))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        place = place_words(request.scope["path"])
        return error_page(request, 404, "Not found", "There is no such page.", place=place)
    title = "Not possible" if error.status_code == 405 else "Refused"
    return error_page(request, error.status_code, title, error.detail)


async def _known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, LlmDoError)
    status = 404 if isinstance(error, UsageError) else 503 if isinstance(error, ConnectionFailed) else 500
    title = {404: "Not found", 503: "The server does not answer"}.get(status, "That did not work")
    place = place_words(request.scope["path"]) if status == 404 and request.method == "GET" else ""
    return error_page(request, status, title, sentence(error), error.next_step, place=place)


async def _unknown_error(request: Request, error: Exception) -> Response:
    return error_page(
        request,
        500,
        "Something went wrong here",
        f"The page met an error it does not know ({type(error).__name__}). No decision was taken by it.",
        "Load the page again to see what is true now.",
        # Starlette answers such errors outside of all middleware, the guard included.
        headers=answer_headers(request.state.nonce),
    )
