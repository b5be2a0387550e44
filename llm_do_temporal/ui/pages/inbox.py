"""The page of the inbox: open questions of all runs. Needs no worker service."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.inbox import InboxEntry
from llm_do_temporal.ui.content.renderer import render

FILTERS = ("worker", "run", "tool", "text")


async def show_inbox(request: Request) -> Response:
    """Show the open questions that the filters in the address let through, oldest first."""
    client: LlmDoClient = request.app.state.client
    contents = await client.inbox()
    entries = contents.entries
    wanted = {name: request.query_params.get(name, "").strip() for name in FILTERS}
    return render(
        request,
        "inbox.html",
        entries=[entry for entry in entries if passes(entry, wanted)],
        total=len(entries),
        locked=contents.locked,
        wanted=wanted,
        workers=_names(entry.worker for entry in entries),
        runs=_names(entry.run for entry in entries),
        tools=_names(entry.tool for entry in entries),
    )


def passes(entry: InboxEntry, wanted: dict[str, str]) -> bool:
    """Whether the filters `wanted` let an entry through; an empty filter lets every entry through."""
    exact = {"worker": entry.worker, "run": entry.run, "tool": entry.tool}
    if any(wanted[name] and wanted[name] != value for name, value in exact.items()):
        return False
    text = wanted["text"].casefold()
    return not text or any(text in part.casefold() for part in (entry.summary, entry.path, *exact.values()))


def _names(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


routes = [Route("/", show_inbox)]
