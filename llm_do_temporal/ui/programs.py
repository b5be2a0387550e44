"""Requests of programs, which are answered beside the page by an application that is made when the first one comes.

Owns the place of that application, `/api/`. What it is, and whom it answers, is its own business: programs send tokens
with each request, and have no session that another page could use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

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
