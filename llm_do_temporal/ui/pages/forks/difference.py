"""The page of two runs beside each other: where they part first, their answers, files and what each has spent."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.differences.reader import read_difference
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.runs.difference import file_blocks, sides_of

MOST_DIVERGENCES = 20
"""Invocations of which the first difference is shown; of others the table tells that they differ."""
MOST_PAIRS = 200


async def show_difference(request: Request) -> Response:
    """Show what differs between the two runs that the address names."""
    client: LlmDoClient = request.app.state.client
    found = await read_difference(client.temporal, request.path_params["run"], request.path_params["other"])
    difference = found.difference
    first, second = difference.first, difference.second
    shown = difference.divergences[:MOST_DIVERGENCES]
    return render(
        request,
        "diff.html",
        first=first,
        second=second,
        difference=difference,
        divergences=[(one, sides_of(one.first, one.second)) for one in shown],
        pairs=difference.pairs[:MOST_PAIRS],
        answer=None if difference.same_output else sides_of(first.error or first.output, second.error or second.output),
        files=[(one, file_blocks(one)) for one in found.files],
    )


routes = [Route("/runs/{run}/diff/{other}", show_difference, methods=["GET"])]
