"""The page of all runs: their states, their spending, and filters."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.run_list import STATES, list_runs, read_all_spent
from llm_do_temporal.client.views.tree import Accounts
from llm_do_temporal.ui.content.renderer import render

FILTERS = ("state", "worker", "begins")


def accounts_of(request: Request) -> Accounts:
    """Return the accounts of all runs, which all visitors share."""
    state = request.app.state
    if state.accounts is None:
        state.accounts = Accounts(state.client.temporal)
    return state.accounts


async def show_runs(request: Request) -> Response:
    """Show a part of the list of runs that the filters in the address let through."""
    client: LlmDoClient = request.app.state.client
    wanted = {name: request.query_params.get(name, "").strip() for name in FILTERS}
    page = await list_runs(client.temporal, **wanted, page=request.query_params.get("page", ""))
    given = {name: value for name, value in wanted.items() if value}
    following = None if page.following is None else f"/runs?{urlencode({**given, 'page': page.following})}"
    return render(
        request,
        "runs.html",
        runs=await read_all_spent(accounts_of(request), page.runs),
        wanted=wanted,
        states=list(STATES),
        following=following,
        is_first="page" not in request.query_params,
    )


routes = [Route("/runs", show_runs, methods=["GET"])]
