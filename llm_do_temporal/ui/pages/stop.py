"""The page to stop a whole run, which asks once more."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import run_address


async def confirm_stop(request: Request) -> Response:
    """Ask whether the run is really to be stopped."""
    run = request.path_params["run"]
    client: LlmDoClient = request.app.state.client
    return render(request, "stop.html", run=run, status_now=await read_run(client.temporal, run))


async def stop_run(request: Request) -> Response:
    """Ask the run, and everything below it, to stop."""
    run = request.path_params["run"]
    client: LlmDoClient = request.app.state.client
    await client.cancel(run)
    return RedirectResponse(run_address(run), status_code=303)


routes = [
    Route("/runs/{run}/cancel", confirm_stop, methods=["GET"]),
    Route("/runs/{run}/cancel", stop_run, methods=["POST"]),
]
