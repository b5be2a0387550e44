"""The list of runs: how each stands, what it has spent, and filters."""

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
    """What is known of spending, for all who look."""
    state = request.app.state
    if state.accounts is None:
        state.accounts = Accounts(state.client.temporal)
    return state.accounts


async def show_runs(request: Request) -> Response:
    """A part of the list, as far as the filters in the address let it through."""
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
