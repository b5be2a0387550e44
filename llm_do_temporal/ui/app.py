"""The page as an ASGI application: its routes, and errors as pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.extension import added, installed
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.ui.content.urls import place_words
from llm_do_temporal.ui.guard import RequestGuard, answer_headers
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
