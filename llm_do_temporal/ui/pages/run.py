"""The pages of one run: its record with the invocations on a timeline, a conversation, and the difference to another.

Folded branches are not read before they are opened, and of a large run only some of the rows have bars of their own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.record.facts import read_facts
from llm_do_temporal.client.record.results import BOM, Track, Tracks, read_results, results_csv
from llm_do_temporal.client.views.pending_work import read_tail, tail_in
from llm_do_temporal.client.views.run_list import RunSummary, read_run, read_spent
from llm_do_temporal.client.views.transcripts import Entry, Page, read_newest, read_on, read_page, read_part_with
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent, list_tree
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.base import WAITS_FOR_BATCH
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.messages.runs import ItemCounts, PendingApprovalMemo, workflow_id_of
from llm_do_temporal.ui.content.documents import as_read
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.timeline import BarLane, Window, axis_of, lane_of, window_of
from llm_do_temporal.ui.content.urls import approval_address, invocation_address, results_address, run_address
from llm_do_temporal.ui.pages.attachments import files_of
from llm_do_temporal.ui.pages.runs import accounts_of
from llm_do_temporal.ui.requests import UiSettings, client_of, number_in, settings_of, shared

MOST_ROWS = 200
"""Invocations shown below another one before more are asked for."""
MOST_DRAWN = 40
"""Invocations whose histories are read for the bars of their turns, calls and waits; others are one bar."""
MOST_TAILS = 3
"""Answers that are shown while they are written."""
MOST_RESULTS = 500
"""Items of a batch whose results are read to be shown; those of a larger one are in the file alone."""
MOST_DECISIONS = 5
"""Decisions that are shown unfolded, the newest ones."""
_QUICK_SECONDS, _SLOW_SECONDS, _LARGE = 4, 30, 300
"""Seconds between two readings of the page, for a small and for a large tree; and the size of a large one."""


@dataclass
class InvocationRow:
    """Invocation as it is shown."""

    branch: Branch
    spent: Spent
    questions: list[PendingApprovalMemo]
    toggle: str | None
    """Address at which the row is opened, or folded again; None for an invocation without callees."""
    is_opened: bool = False
    rows: list[InvocationRow] = field(default_factory=list["InvocationRow"])
    more: str | None = None
    """Address at which all rows below are shown; None if they are."""
    lane: BarLane | None = None
    """Bars on the timeline; set once all rows are known."""
    tail: LiveText | None = None
    """The end of the answer that its model writes; None where it writes none."""


class Folding:
    """The open branches: those that an address names, else the entry worker and all that lead to a question."""

    def __init__(
        self, run: str, opened: Sequence[str], all_of: Sequence[str], *, named: bool, window: str = ""
    ) -> None:
        self._run = run
        self._opened = dict.fromkeys(opened)
        self._all = dict.fromkeys(all_of)
        self._window = window
        self.named = named

    def open_first(self, roots: Sequence[Branch], asking: Sequence[str]) -> None:
        """Open the branches that are open if the address names none."""
        parts = [path.split("/") for path in asking]
        self._opened |= {"/".join(one[:end]): None for one in parts for end in range(1, len(one))}
        if len(roots) == 1:
            self._opened[roots[0].path] = None

    def is_open(self, path: str) -> bool:
        """Whether the branch at `path` is open."""
        return path in self._opened

    def shows_all(self, path: str) -> bool:
        """Whether all rows below a branch are shown, however many; an empty path stands for the run."""
        return path in self._all

    def toggled(self, path: str) -> str:
        """Return the address at which an open branch is folded, or a folded one open."""
        opened = [one for one in self._opened if one != path] if self.is_open(path) else [*self._opened, path]
        return self._address(opened, list(self._all), path)

    def with_all(self, path: str) -> str:
        """Return the address at which all rows below this branch are shown."""
        return self._address(list(self._opened), [*self._all, path], path)

    def zoomed(self, window: str) -> str:
        """Return the address at which the same rows are shown with another window; empty: that of the whole run."""
        query = [("open", one) for one in self._opened] if self.named else []
        query += [("all", one) for one in self._all] + parse_qsl(window)
        return f"{run_address(self._run)}{'?' if query else ''}{urlencode(query)}#timeline"

    def _address(self, opened: list[str], all_of: list[str], path: str) -> str:
        query = [("open", one) for one in opened or [""]] + [("all", one) for one in all_of]
        return f"{run_address(self._run)}?{urlencode(query + parse_qsl(self._window))}#{quote(path)}"


@dataclass
class _Tree:
    accounts: Accounts
    folding: Folding
    questions: dict[str, list[PendingApprovalMemo]]

    async def rows(
        self, branches: list[Branch], parent: Spent | None, path: str
    ) -> tuple[list[InvocationRow], str | None]:
        """Return the rows that are shown of `branches`, and the address that shows the rest; None without any."""
        shown = branches if self.folding.shows_all(path) else branches[:MOST_ROWS]
        shown += [one for one in branches[len(shown) :] if one.workflow_id in self.questions]
        spent = await self.accounts.read(shown, parent)
        rows = [await self._row(one, spent[one.workflow_id]) for one in shown]
        return rows, None if len(shown) == len(branches) else self.folding.with_all(path)

    async def _row(self, branch: Branch, spent: Spent) -> InvocationRow:
        opened = bool(branch.children) and self.folding.is_open(branch.path)
        toggle = self.folding.toggled(branch.path) if branch.children else None
        row = InvocationRow(branch, spent, self.questions.get(branch.workflow_id, []), toggle, opened)
        if opened:
            row.spent = await self.accounts.read_one(branch, whole=True)
            row.rows, row.more = await self.rows(branch.children, row.spent, branch.path)
        return row


async def show_run(request: Request) -> Response:
    """Show the record of a run, the questions that it waits for, and its tree on a timeline."""
    client, settings = client_of(request), settings_of(request)
    accounts, query = accounts_of(request), request.query_params
    run, now = await read_run(client.temporal, request.path_params["run"]), datetime.now(UTC)
    questions: dict[str, list[PendingApprovalMemo]] = {}
    for one in run.questions:
        questions.setdefault(one.invocation, []).append(one)
    start, end = run.started_at, run.ended_at or now
    window, is_part = window_of(start, end, query.get("from", ""), query.get("to", ""))
    shown = f"from={query['from']}&to={query['to']}" if is_part else ""
    folding = Folding(run.run, query.getlist("open"), query.getlist("all"), named="open" in query, window=shown)
    async with translated(run.run):
        roots, facts, asked = await asyncio.gather(
            list_tree(client.temporal, run.run), read_facts(client.temporal, run), _questions(client, run.run)
        )
        if not folding.named:
            folding.open_first(roots, [one.path for one in run.questions])
        rows, more = await _Tree(accounts, folding, questions).rows(roots, None, "")
        spent = await read_spent(accounts, run)
        tracks = await _draw(request, run.run, list(_flat(rows)), start, window, now)
        shows_results = 0 < len(facts.items) <= MOST_RESULTS and run.ended_at is not None
        results = await read_results(client.temporal, run.run) if shows_results else []
    size = sum(root.size for root in roots)
    files = files_of(run.run, facts, list(tracks.values()), size, settings.workshop)
    return render(
        request,
        "run.html",
        run=run,
        facts=facts,
        spent=_total(spent, roots, rows),
        size=size,
        counts=_counts(run, roots),
        files=files,
        results=results,
        results_address=results_address(run.run),
        lacks=[(row.branch.path, one) for row in _flat(rows) for one in _without(tracks, row)],
        ignored=[one for track in tracks.values() for one in track.ignored],
        decided=_decided(asked),
        most_decisions=MOST_DECISIONS,
        as_read=as_read,
        rows=rows,
        more=more,
        axis=axis_of(start, end, window),
        folding=folding,
        is_part=is_part,
        refresh_seconds=None if run.ended_at else _QUICK_SECONDS if size < _LARGE else _SLOW_SECONDS,
        temporal_link=temporal_link(settings, run.run, run.run_id),
    )


async def send_results(request: Request) -> Response:
    """Send the results of a run as a table, with a row for each item of a batch."""
    client = client_of(request).temporal
    run = await read_run(client, request.path_params["run"])
    async with translated(run.run):
        results = await read_results(client, run.run)
    text = BOM + results_csv(run.run, results)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(run.run, safe='')}.csv"}
    return Response(text.encode(), headers=headers, media_type="text/csv; charset=utf-8")


def _without(tracks: dict[str, Track], row: InvocationRow) -> tuple[str, ...]:
    track = tracks.get(row.branch.workflow_id)
    return () if track is None else track.without


def temporal_link(settings: UiSettings, workflow_id: str, run_id: str) -> str | None:
    """Return the address of a workflow in the Temporal UI; None if no such UI is known."""
    if settings.temporal_ui is None:
        return None
    place = f"{settings.temporal_ui}/namespaces/{quote(settings.namespace, safe='')}/workflows"
    return f"{place}/{quote(workflow_id, safe='')}/{run_id}/history"


async def _questions(client: LlmDoClient, run: str) -> list[Question] | None:
    """Return all questions of the run; None where they are kept elsewhere."""
    try:
        return await client.questions(run)
    except UsageError:
        return None


async def _draw(
    request: Request, run: str, rows: list[InvocationRow], start: datetime, window: Window, now: datetime
) -> dict[str, Track]:
    """Give the rows their lanes and live texts; return the tracks that were read."""
    seen = [row for row in rows if window.meets(row.branch.started_at, row.branch.ended_at or now)]
    # What waits and what goes on first: that is what people come to see.
    seen.sort(key=lambda row: (not row.questions, not row.branch.is_open))
    drawn = [row.branch for row in seen[:MOST_DRAWN]]
    tracks = await shared(request, "tracks", Tracks).read(run, drawn, window.begin)
    for row in rows:
        row.lane = lane_of(row.branch, tracks.get(row.branch.workflow_id), start, window, now)
    writing = [row for row in rows if row.branch.is_open and _is_thinking(tracks.get(row.branch.workflow_id))]
    client = client_of(request).temporal
    found = await asyncio.gather(*(read_tail(client, row.branch.workflow_id) for row in writing[:MOST_TAILS]))
    for row, tail in zip(writing, found, strict=False):
        row.tail = tail
    return tracks


def _counts(run: RunSummary, roots: Sequence[Branch]) -> ItemCounts | None:
    """Return the counts of a batch, while it goes on those of its items as they are listed; None for other runs."""
    if run.items is None or run.items.completed is not None:
        return run.items
    ended = [one.status for one in roots if not one.is_open]
    completed = ended.count("completed")
    return ItemCounts(total=run.items.total, completed=completed, failed=len(ended) - completed)


def _decided(asked: list[Question] | None) -> list[Question] | None:
    """Return the questions that were decided, the newest decision first; None where they cannot be read."""
    if asked is None:
        return None
    found = [(one.verdict.at, one) for one in asked if one.verdict is not None]
    return [one for _, one in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _is_thinking(track: Track | None) -> bool:
    return track is not None and any(one.kind == "turn" and one.end is None for one in track.periods)


def _flat(rows: Sequence[InvocationRow]) -> Iterator[InvocationRow]:
    for row in rows:
        yield row
        yield from _flat(row.rows)


def _total(spent: Spent, roots: Sequence[Branch], rows: Sequence[InvocationRow]) -> Spent:
    """Return the spending of the run; while it goes on, the account of its only root knows more."""
    return rows[0].spent if len(roots) == 1 and rows and roots[0].is_open else spent


_PART = re.compile(r"[0-9a-f-]{36}")
_WHOLE_CHARS = 20_000
"""Longest text that is shown whole without being asked for."""


async def show_invocation(request: Request) -> Response:
    """Show the newest part of the conversation, the part that the address names, or the part with a turn."""
    client, run, path, workflow = _invocation(request)
    query, address = request.query_params, invocation_address(run, path)
    listed = await read_run(client, run)
    async with translated(workflow):
        page = await _part(client, workflow, query)
    if not page.has_begun:
        raise UsageError(f"no invocation '{path}' has begun in run '{run}'")
    is_newest = not {"part", "turn"} & set(query)
    is_open = is_newest and not any(entry.kind == "end" for entry in page.entries)
    return render(
        request,
        "invocation.html",
        before=f"{address}?{urlencode({'part': page.before})}" if page.before else None,
        is_newest=is_newest,
        is_open=is_open,
        tail=await read_tail(client, workflow) if is_open else None,
        limit=None if "whole" in query else _WHOLE_CHARS,
        whole=f"{address}?{urlencode({**query, 'whole': 1})}",
        temporal_link=temporal_link(settings_of(request), workflow, page.run_id),
        **_entries(listed, path, page),
    )


async def show_entries(request: Request) -> Response:
    """Show the entries since an event of the conversation, for a page that is open."""
    client, run, path, workflow = _invocation(request)
    run_id, after = request.query_params.get("part", ""), number_in(request.query_params.get("after", ""))
    if not _PART.fullmatch(run_id) or after is None:
        raise UsageError("this address does not name a place in a conversation")
    listed = await read_run(client, run)
    async with translated(workflow):
        page = await read_on(client, workflow, run_id, after)
    headers, whole = (
        {"X-Part": page.run_id, "X-After": str(page.last_event)},
        f"{invocation_address(run, path)}?whole=1",
    )
    facts = _entries(listed, path, page)
    return render(request, "new_entries.html", headers=headers, limit=_WHOLE_CHARS, whole=whole, **facts)


async def follow_invocation(request: Request) -> Response:
    """Send news of an invocation while it goes on, as server-sent events."""
    client, _, _, workflow = _invocation(request)
    streams = request.app.state.streams
    if len(streams) >= MAX_STREAMS:
        return PlainTextResponse("Too many pages follow something. Use Refresh.", 503)
    async with translated(workflow):
        await client.get_workflow_handle(workflow).describe()
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(news(client, workflow, streams), media_type="text/event-stream", headers=headers)


def _invocation(request: Request) -> tuple[Client, str, str, str]:
    """Return the client, and the run, path and workflow id of the invocation that the address names."""
    run, path = request.path_params["run"], request.path_params["path"]
    return client_of(request).temporal, run, path, workflow_id_of(run, path)


async def _part(client: Client, workflow: str, query: Mapping[str, str]) -> Page:
    if "turn" in query:
        if (turn := number_in(query["turn"])) is None:
            raise UsageError("a turn is a number")
        return await read_part_with(client, workflow, turn)
    if "part" in query:
        if not _PART.fullmatch(query["part"]):
            raise UsageError("this address does not name a part of a conversation", next_step="Open the newest part.")
        return await read_page(client, workflow, query["part"])
    return await read_newest(client, workflow)


def _entries(run: RunSummary, path: str, page: Page) -> dict[str, Any]:
    links = _links(run, page, workflow_id_of(run.run, path))
    functions = {"link_of": links, "as_read": as_read, "call_line": call_line, "result_line": result_line}
    return {"run": run, "path": path, "page": page, "pairs": EntryPairs(page.entries), **functions}


def _links(run: RunSummary, page: Page, workflow_id: str) -> Any:
    """Return a function from an entry to the page of its approval; None if its id is not known."""
    known = {one.key: one.id for one in run.questions if one.invocation == workflow_id}
    known |= {one.call: str(one.details["id"]) for one in page.entries if one.kind == "decision"}

    def link(entry: Entry) -> str | None:
        approval = known.get(entry.call)
        return None if approval is None else approval_address(run.run, approval)

    return link


routes = [
    Route("/runs/{run}", show_run, methods=["GET"]),
    Route("/runs/{run}/results.csv", send_results, methods=["GET"]),
    Route("/runs/{run}/invocations/{path:path}", show_invocation, methods=["GET"]),
    Route("/runs/{run}/entries/{path:path}", show_entries, methods=["GET"]),
    Route("/runs/{run}/live/{path:path}", follow_invocation, methods=["GET"]),
]


_FIRST = {"result": "call", "decision": "question"}
MAX_CHARS = 140
_VALUE_CHARS = 60
MAX_STREAMS = 50
"""Number of pages that may follow invocations at once; others are refused."""
_WRITING_SECONDS, _IDLE_SECONDS = 0.15, 0.5
"""Pauses between two questions to the server: while a model writes, and otherwise."""
_LONGEST_SECONDS = 600
"""Longest stream: a browser comes back by itself, and a stream without a reader ends."""
_ALIVE_SECONDS = 15
"""Longest silence: proxies close silent connections."""
_SHOWN = ("text", "chars", "part", "attempt")
"""Fields of a text being written that the pages are told."""


class EntryPairs:
    """EntryPairs among the entries of a page."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._second: dict[int, Entry] = {}
        self._first: dict[int, Entry] = {}
        last: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            if entry.kind in _FIRST.values():
                last[entry.kind, entry.call] = entry
            elif entry.kind in _FIRST:
                first = last.pop((_FIRST[entry.kind], entry.call), None)
                if first is not None:
                    self._second[id(first)], self._first[id(entry)] = entry, first

    def second(self, entry: Entry) -> Entry | None:
        """Return the result of a call, or the decision on a question; None where it is not on the page."""
        return self._second.get(id(entry))

    def first(self, entry: Entry) -> Entry | None:
        """Return the call of a result, or the question of a decision, which shows it; None: it stands by itself."""
        return self._first.get(id(entry))


def call_line(args: Any) -> str:
    """Return the arguments of a call on one line, each with its name; long ones are cut."""
    if not isinstance(args, Mapping):
        return "" if args is None else _cut(_one(args), MAX_CHARS)
    named = cast("Mapping[str, Any]", args)
    return _cut(" · ".join(f"{name}: {_cut(_one(value), _VALUE_CHARS)}" for name, value in named.items()), MAX_CHARS)


def result_line(value: Any) -> str:
    """Return the beginning of a result: the first line of a text, else JSON."""
    return _cut(_one(value), MAX_CHARS)


def _one(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    lines = value.strip().splitlines()
    return f"{lines[0].rstrip()} …" if len(lines) > 1 else "".join(lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


async def news(client: Client, workflow_id: str, streams: set[object]) -> AsyncGenerator[str]:
    """Yield `tail` (the end of the answer being written), `grown` (the history has more) and `end` (the last event).

    `streams` holds a token as long as the stream has a reader.
    """
    token = object()
    streams.add(token)
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            async for event in _events(client, workflow_id):
                yield event
    except (TimeoutError, RPCError):
        return
    finally:
        streams.discard(token)


async def _events(client: Client, workflow_id: str) -> AsyncGenerator[str]:
    sent, length, silent = None, None, 0.0
    handle = client.get_workflow_handle(workflow_id)
    yield "retry: 2000\n\n"
    while True:
        description = await handle.describe()
        raw = description.raw_description
        grown = (description.run_id, description.history_length)
        tail = await tail_in(client, raw)
        data = None if tail is None else {name: getattr(tail, name) for name in _SHOWN}
        if data != sent:
            sent, silent = data, 0.0
            yield _event("tail", data)
        if grown != length:
            length, silent = grown, 0.0
            yield _event("grown", {"part": grown[0], "events": grown[1]})
        if description.status is not WorkflowExecutionStatus.RUNNING:
            yield _event("end", {})
            return
        pause = _WRITING_SECONDS if _is_writing(raw) else _IDLE_SECONDS
        await asyncio.sleep(pause)
        silent += pause
        if silent >= _ALIVE_SECONDS:
            silent = 0.0
            yield ": still here\n\n"


def _event(name: str, data: Any) -> str:
    # JSON has no line ends of its own, so a text cannot end its event and begin another.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _is_writing(description: DescribeWorkflowExecutionResponse) -> bool:
    return any(
        pending.activity_type.name == REQUEST_MODEL.name
        and pending.last_failure.application_failure_info.type != WAITS_FOR_BATCH
        for pending in description.pending_activities
    )
