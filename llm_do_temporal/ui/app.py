"""The page as an ASGI application: its routes, and errors as pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.ui.bulk_decisions import BulkDecisions
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import place_words
from llm_do_temporal.ui.pages import (
    approval,
    attachments,
    charts,
    grants,
    groups,
    inbox,
    invocation,
    queue,
    retry,
    run,
    runs,
)
from llm_do_temporal.ui.pages import (
    edit as editing,
)
from llm_do_temporal.ui.pages import (
    start as starting,
)
from llm_do_temporal.ui.pages import (
    stop as stopping,
)
from llm_do_temporal.ui.pages.evaluations import comparison as compared_experiments
from llm_do_temporal.ui.pages.evaluations import experiments
from llm_do_temporal.ui.pages.forks import difference
from llm_do_temporal.ui.pages.policy import rules
from llm_do_temporal.ui.pages.reviews import files as reviewed_files
from llm_do_temporal.ui.pages.schedules import schedules
from llm_do_temporal.ui.security.middleware import RequestGuard, answer_headers
from llm_do_temporal.ui.security.settings import UiSettings

_STATIC = Path(__file__).with_name("static")
_TITLES = {404: "Not found", 405: "Not possible"}


def build_app(settings: UiSettings, client: LlmDoClient) -> Starlette:
    """Return the page for the runs of one server. Handlers find both arguments in `request.app.state`."""
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=_STATIC)),
            *inbox.routes,
            *groups.routes,
            *approval.routes,
            *editing.routes,
            *reviewed_files.routes,
            *queue.routes,
            *attachments.routes,
            *grants.routes,
            *runs.routes,
            *charts.routes,
            *schedules.routes,
            *experiments.routes,
            *compared_experiments.routes,
            *run.routes,
            *invocation.routes,
            *difference.routes,
            *rules.routes,
            *starting.routes,
            *stopping.routes,
            *retry.routes,
        ],
        middleware=[Middleware(RequestGuard, settings=settings)],
        exception_handlers={HTTPException: _http_error, LlmDoError: _known_error, Exception: _unknown_error},
    )
    app.state.settings = settings
    app.state.client = client
    app.state.accounts = None
    app.state.answered = dict[tuple[str, str, str], DecisionKind | None]()
    app.state.past_runs = None
    app.state.past_calls = None
    app.state.streams = set[object]()
    app.state.bulk_decisions = BulkDecisions()
    return app


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = _TITLES.get(error.status_code, "Refused")
    message = "There is no such page." if error.status_code == 404 else error.detail
    place = place_words(request.scope["path"]) if error.status_code == 404 else ""
    facts: dict[str, Any] = {"title": title, "message": message, "next_step": None, "place": place}
    return render(request, "error.html", status=error.status_code, **facts)


async def _known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, LlmDoError)
    status = 404 if isinstance(error, UsageError) else 503 if isinstance(error, ConnectionFailed) else 500
    title = {404: "Not found", 503: "The server does not answer"}.get(status, "That did not work")
    place = place_words(request.scope["path"]) if status == 404 and request.method == "GET" else ""
    message = error.message[:1].upper() + error.message[1:] + "."
    facts: dict[str, Any] = {"title": title, "message": message, "next_step": error.next_step, "place": place}
    return render(request, "error.html", status=status, **facts)


async def _unknown_error(request: Request, error: Exception) -> Response:
    # Starlette answers such errors outside of all middleware, the guard included.
    return render(
        request,
        "error.html",
        status=500,
        headers=answer_headers(request.state.nonce),
        title="Something went wrong here",
        message=f"The page met an error it does not know ({type(error).__name__}). No decision was taken by it.",
        next_step="Load the page again to see what is true now.",
    )
