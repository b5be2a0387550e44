"""The page of an invocation: the newest part of its conversation, older ones on request, and the text being written."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.views.pending_work import read_tail
from llm_do_temporal.client.views.run_list import ListedRun, read_run
from llm_do_temporal.client.views.transcripts import Entry, Page, read_newest, read_on, read_page, read_part_with
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.ui.content.documents.words import as_read
from llm_do_temporal.ui.content.events import MAX_STREAMS, news
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.runs.entry_pairs import EntryPairs
from llm_do_temporal.ui.content.runs.summaries import call_line, result_line
from llm_do_temporal.ui.content.urls import approval_address, invocation_address
from llm_do_temporal.ui.pages.run import temporal_link

_MOST_DIGITS = 9
_PART = re.compile(r"[0-9a-f-]{36}")
_WHOLE_CHARS = 20_000
"""Longest text that is shown whole without being asked for."""


async def show_invocation(request: Request) -> Response:
    """Show the newest part of the conversation, the part that the address names, or the part with a turn."""
    client: LlmDoClient = request.app.state.client
    run, path = request.path_params["run"], request.path_params["path"]
    listed = await read_run(client.temporal, run)
    async with _invocation(run, path):
        page = await _part(client, workflow_id_of(run, path), request)
    if not page.has_begun:
        raise UsageError(f"no invocation '{path}' has begun in run '{run}'")
    is_newest = not {"part", "turn"} & set(request.query_params)
    is_open = is_newest and not any(entry.kind == "end" for entry in page.entries)
    tail = await read_tail(client.temporal, workflow_id_of(run, path)) if is_open else None
    before = invocation_address(run, path) + "?" + urlencode({"part": page.before}) if page.before else None
    return render(
        request,
        "invocation.html",
        run=listed,
        path=path,
        page=page,
        before=before,
        is_newest=is_newest,
        is_open=is_open,
        tail=tail,
        limit=None if "whole" in request.query_params else _WHOLE_CHARS,
        whole=invocation_address(run, path) + "?" + urlencode({**request.query_params, "whole": 1}),
        link_of=_links(listed, page, workflow_id_of(run, path)),
        pairs=EntryPairs(page.entries),
        as_read=as_read,
        call_line=call_line,
        result_line=result_line,
        temporal_link=temporal_link(request.app.state.settings, workflow_id_of(run, path), page.run_id),
    )


async def show_entries(request: Request) -> Response:
    """Show the entries since an event of the conversation, for a page that is open."""
    client: LlmDoClient = request.app.state.client
    run, path = request.path_params["run"], request.path_params["path"]
    run_id, after = request.query_params.get("part", ""), request.query_params.get("after", "")
    if not _PART.fullmatch(run_id) or not _is_number(after):
        raise UsageError("this address does not name a place in a conversation")
    listed = await read_run(client.temporal, run)
    async with _invocation(run, path):
        page = await read_on(client.temporal, workflow_id_of(run, path), run_id, int(after))
    return render(
        request,
        "new_entries.html",
        headers={"X-Part": page.run_id, "X-After": str(page.last_event)},
        run=listed,
        path=path,
        page=page,
        limit=_WHOLE_CHARS,
        whole=invocation_address(run, path) + "?whole=1",
        link_of=_links(listed, page, workflow_id_of(run, path)),
        pairs=EntryPairs(page.entries),
        as_read=as_read,
        call_line=call_line,
        result_line=result_line,
    )


async def follow_invocation(request: Request) -> Response:
    """Send news of an invocation while it goes on, as server-sent events."""
    client: LlmDoClient = request.app.state.client
    run, path = request.path_params["run"], request.path_params["path"]
    streams = request.app.state.streams
    if len(streams) >= MAX_STREAMS:
        return PlainTextResponse("Too many pages follow something. Use Refresh.", 503)
    async with _invocation(run, path):
        await client.temporal.get_workflow_handle(workflow_id_of(run, path)).describe()
    return StreamingResponse(
        news(client.temporal, workflow_id_of(run, path), streams),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


def _invocation(run: str, path: str) -> Any:
    return translated(workflow_id_of(run, path))


async def _part(client: LlmDoClient, workflow_id: str, request: Request) -> Page:
    query = request.query_params
    if "turn" in query:
        if not _is_number(query["turn"]):
            raise UsageError("a turn is a number")
        return await read_part_with(client.temporal, workflow_id, int(query["turn"]))
    if "part" in query:
        if not _PART.fullmatch(query["part"]):
            raise UsageError("this address does not name a part of a conversation", next_step="Open the newest part.")
        return await read_page(client.temporal, workflow_id, query["part"])
    return await read_newest(client.temporal, workflow_id)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _links(run: ListedRun, page: Page, workflow_id: str) -> Any:
    """Return a function from an entry to the page of its approval; None if its id is not known."""
    known = {one.key: one.id for one in run.pending if one.invocation == workflow_id}
    known |= {one.call: str(one.details["id"]) for one in page.entries if one.kind == "decision"}

    def link(entry: Entry) -> str | None:
        approval = known.get(entry.call)
        return None if approval is None else approval_address(run.run, approval)

    return link


routes = [
    Route("/runs/{run}/invocations/{path:path}", show_invocation, methods=["GET"]),
    Route("/runs/{run}/entries/{path:path}", show_entries, methods=["GET"]),
    Route("/runs/{run}/live/{path:path}", follow_invocation, methods=["GET"]),
]
