"""The page of the decisions that are remembered for the rest of a run, and revoking one."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.ui.content.questions import text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import grants_address


async def show_grants(request: Request) -> Response:
    """Show the remembered decisions that are in force."""
    run = request.path_params["run"]
    client: LlmDoClient = request.app.state.client
    grants = await client.grants(run)
    listed = await read_run(client.temporal, run)
    shown = [(grant, json.loads(grant.canonical_args)[0]) for grant in grants]
    return render(
        request,
        "grants.html",
        run=run,
        grants=shown,
        task=listed.task,
        ended=listed.ended_at is not None,
        revoked="revoked" in request.query_params,
    )


async def revoke_grant(request: Request) -> Response:
    """Take a decision back: identical calls are asked about again."""
    run, approval = request.path_params["run"], text_of(request.state.form, "approval")
    client: LlmDoClient = request.app.state.client
    await client.revoke(run, approval, by=request.state.user)
    return RedirectResponse(f"{grants_address(run)}?revoked", status_code=303)


routes = [
    Route("/runs/{run}/grants", show_grants, methods=["GET"]),
    Route("/runs/{run}/grants", revoke_grant, methods=["POST"]),
]
