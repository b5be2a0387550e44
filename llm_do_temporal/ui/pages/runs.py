"""The page of all runs, with filters as addresses and the views of the workshop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client.views.run_list import count_left_out, list_runs, read_all_spent, read_filter
from llm_do_temporal.client.views.tree import Accounts
from llm_do_temporal.definitions.workshop import parse_workshop
from llm_do_temporal.errors import UsageError, WorkshopNotFound
from llm_do_temporal.policy.run_filter import STATES, RunFilter
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.requests import client_of, error_page, settings_of, shared


def accounts_of(request: Request) -> Accounts:
    """Return the accounts of all runs, which all visitors share."""
    return shared(request, "accounts", Accounts)


def filter_in(request: Request) -> RunFilter:
    """Return the filter in the address. Raises UsageError."""
    named = {name: request.query_params.get(name, "").strip() for name in RunFilter.model_fields}
    return read_filter(named)


def runs_address(wanted: RunFilter, **more: str) -> str:
    """Return the address of the runs that pass a filter."""
    given = wanted.given | more
    return f"/runs?{urlencode(given)}" if given else "/runs"


async def show_runs(request: Request) -> Response:
    """Show a part of the list of runs that the filters in the address let through."""
    client, workshop = client_of(request).temporal, settings_of(request).workshop
    try:
        wanted = filter_in(request)
    except UsageError as error:
        title, step = "This filter cannot be used", error.next_step or "Go back, and change it."
        return error_page(request, 422, title, error.message, step)
    page = await list_runs(client, wanted, page=request.query_params.get("page", ""))
    left_out = 0 if "page" in request.query_params else await count_left_out(client, wanted)
    views = {} if workshop is None else await asyncio.to_thread(_views, workshop)
    return render(
        request,
        "runs.html",
        runs=await read_all_spent(accounts_of(request), page.runs),
        page=page,
        wanted=wanted,
        states=STATES,
        left_out=left_out,
        with_left_out=runs_address(wanted, evaluations="yes"),
        tabs=[("All", "/runs", not wanted.given)]
        + [(name, runs_address(view), view == wanted) for name, view in views.items()],
        following=None if page.following is None else runs_address(wanted, page=page.following),
        first=None if "page" not in request.query_params else runs_address(wanted),
    )


def _views(workshop: Path) -> dict[str, RunFilter]:
    """Return the views of the workshop's file, as far as it can be read: `check` says what is wrong in it."""
    try:
        return parse_workshop(workshop)[0].config.views
    except WorkshopNotFound:
        return {}


routes = [
    Route("/runs", show_runs, methods=["GET"]),
]
