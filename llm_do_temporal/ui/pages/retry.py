"""The page to do again what a batch has left over: a new run for the items that failed, or were never done."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.forks.attempt import prepare_attempt
from llm_do_temporal.ui.content.questions import text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import run_address
from llm_do_temporal.ui.pages.start import check_key, start_once

MOST_NAMES = 200
"""Items that are listed by name."""
_WORKER_CHARS = 60
"""Most characters of a worker's name in the id of a run."""


async def confirm_retry(request: Request) -> Response:
    """Show what is left over of a batch, and ask whether to do it again."""
    run = request.path_params["run"]
    client: LlmDoClient = request.app.state.client
    left = await client.unfinished(run)
    assert left.batch is not None, "what is unfinished is a batch"
    items = left.batch.items
    names = [item.name for item in items]
    unusable = {item.name: item.unusable for item in items if item.unusable}
    return render(
        request,
        "retry.html",
        run=run,
        task=left.task() or run,
        names=names[:MOST_NAMES],
        total=len(names),
        unusable=unusable,
        key=secrets.token_hex(8),
    )


async def start_retry(request: Request) -> Response:
    """Start a run for what is left over, as it was when the batch was started, and go to its page."""
    run = request.path_params["run"]
    client: LlmDoClient = request.app.state.client
    key = text_of(request.state.form, "key")
    check_key(key)
    left = await client.unfinished(run)
    again = f"{left.worker.replace(':', '-').replace('/', '-')[-_WORKER_CHARS:]}-{key}"
    if _is_reused(request):
        left = (await prepare_attempt(client.temporal, run, left)).start
    await start_once(client, left.model_copy(update={"started_by": request.state.user}), again)
    return RedirectResponse(run_address(again), status_code=303)


def _is_reused(request: Request) -> bool:
    """Return whether the new run goes on from what the one before has come to."""
    return text_of(request.state.form, "reuse") == "yes"


routes = [
    Route("/runs/{run}/retry", confirm_retry, methods=["GET"]),
    Route("/runs/{run}/retry", start_retry, methods=["POST"]),
]
