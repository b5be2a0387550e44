"""Tracks of invocations: when each asked its model, called a tool, waited for a person, and the files it wrote.

Times are those of the spans that traces are made of. Reads the newest history of an invocation, and earlier ones as far
back as somebody looks; needs no worker service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.history.events import read_events
from llm_do_temporal.client.history.invocations import Lacks
from llm_do_temporal.client.history.questions import ignored_signal
from llm_do_temporal.client.record.facts import FileReader, WrittenFile, last_written
from llm_do_temporal.client.traces import Tracer
from llm_do_temporal.client.views.tree import AT_ONCE, Branch

PeriodKind = Literal["turn", "call", "wait"]
MOST_PARTS = 4
"""Histories of one invocation, which continues as new about every hundred turns, that are read at most."""
MOST_KEPT = 2_000
"""Tracks of ended invocations that are remembered; those read first leave first."""


@dataclass(frozen=True)
class Period:
    """Time that an invocation spent on one thing."""

    kind: PeriodKind
    label: str
    """Model of a turn, tool of a call, summary of a question."""
    begin: datetime
    end: datetime | None
    """None: it goes on."""
    failed: bool = False
    """Whether a turn or a call failed, or the call was refused."""
    outcome: str = ""
    """Decision on a question and who took it; error of a turn or a call."""


@dataclass(frozen=True)
class Track:
    """Periods of one invocation, and its files."""

    periods: tuple[Period, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    read_from: datetime | None = None
    """Time from which on the periods are known; None: from its beginning."""
    without: tuple[str, ...] = ()
    """Toolsets and tools that it does without, each with the reason, as the listings of its tools have them."""
    ignored: tuple[str, ...] = ()
    """Reasons why signals to its run were ignored."""
    more_files: int = 0
    """Files that reviews have made besides `files`, and that the histories do not name."""


class Tracks:
    """Reads tracks, and remembers those of invocations that have ended."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: dict[tuple[str, datetime | None], Track] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def read(self, run: str, branches: Sequence[Branch], since: datetime | None = None) -> dict[str, Track]:
        """Return the tracks of these invocations by workflow id, back to `since` at least where that is not too far.

        None for `since` asks for the newest history of each alone. Raises RPCError and KeyMismatch.
        """
        read = await asyncio.gather(*(self._of(run, one, since) for one in branches))
        return {one.workflow_id: track for one, track in zip(branches, read, strict=True)}

    async def _of(self, run: str, branch: Branch, since: datetime | None) -> Track:
        since = None if since is not None and since <= branch.started_at else since
        key = branch.run_id, since
        if (kept := self._ended.get(key)) is not None:
            return kept
        async with self._turn:
            track = await self._read(run, branch, since)
        if not branch.is_open:
            while len(self._ended) >= MOST_KEPT:
                self._ended.pop(next(iter(self._ended)))
            self._ended[key] = track
        return track

    async def _read(self, run: str, branch: Branch, since: datetime | None) -> Track:
        parts: list[TrackPart] = []
        run_id: str | None = branch.run_id or None
        while len(parts) < MOST_PARTS:
            try:
                part = await self._part(run, branch, run_id)
            except RPCError as error:
                if not is_missing(error):
                    raise
                break  # begun a moment ago, or no longer kept
            parts.insert(0, part)
            run_id = part.before
            if run_id is None or (since is not None and part.begin is not None and part.begin <= since):
                break
        return track_of(parts)

    async def _part(self, run: str, branch: Branch, run_id: str | None) -> TrackPart:
        part = TrackPart(run, branch.workflow_id, branch.path)
        handle = self._client.get_workflow_handle(branch.workflow_id, run_id=run_id)
        async for event in read_events(handle, wait=False, converter=self._client.data_converter):
            part.take(event)
        return part


class TrackPart:
    """Part of a track that one history tells, given its events in their order."""

    def __init__(self, run: str, workflow_id: str, path: str) -> None:
        self.begin: datetime | None = None
        self.before: str | None = None
        """The run of the workflow with the part before; None: this is the beginning."""
        self.files = FileReader(path)
        self._tracer = Tracer(run)
        self._workflow_id = workflow_id
        self._spans: list[ReadableSpan] = []
        self._lacks = Lacks()
        self.without: list[str] = []
        """Toolsets, tools and files that are missing, each with the reason."""
        self.ignored: list[str] = []
        """Reasons why signals to its run were ignored."""

    def take(self, event: HistoryEvent) -> None:
        """Take in the next event."""
        if event.HasField("workflow_execution_started_event_attributes"):
            self.begin = event.event_time.ToDatetime(UTC)
            self.before = event.workflow_execution_started_event_attributes.continued_execution_run_id or None
        self._spans += self._tracer.take(self._workflow_id, event)
        self.files.take(event)
        self.without += [reason for _, reason in self._lacks.take(event)]
        if (reason := ignored_signal(event)) is not None:
            self.ignored.append(reason)

    @property
    def periods(self) -> list[Period]:
        """The periods so far, in the order in which they began."""
        found = (_period(span) for span in (*self._spans, *self._tracer.rest()))
        return sorted((one for one in found if one is not None), key=lambda one: one.begin)


def track_of(parts: Sequence[TrackPart]) -> Track:
    """Return the track that these parts make, the first one first."""
    periods = tuple(period for part in parts for period in part.periods)
    files = last_written([file for part in parts for file in part.files.found])
    read_from = parts[0].begin if parts and parts[0].before is not None else None
    without = tuple(dict.fromkeys(one for part in parts for one in part.without))
    more, ignored = sum(part.files.more for part in parts), tuple(one for part in parts for one in part.ignored)
    return Track(periods, files, read_from, without, ignored, more)


def _period(span: ReadableSpan) -> Period | None:
    """Return the period that a span is; None for spans of runs, invocations and effects."""
    told: dict[str, Any] = dict(span.attributes or {})
    begin, end = _moment(span.start_time), _moment(span.end_time)
    if begin is None:
        return None
    failed, error = span.status.status_code is StatusCode.ERROR, span.status.description or ""
    operation, origin = told.get("gen_ai.operation.name"), str(told.get("llm_do.reused_from") or "")
    error = error or (f"from {origin}" if origin else "")
    if operation == "chat":
        return Period("turn", str(told.get("gen_ai.request.model") or ""), begin, end, failed, error)
    if operation == "execute_tool":
        return Period("call", str(told.get("gen_ai.tool.name") or ""), begin, end, failed, error)
    if span.name != "approval":
        return None
    decision, by = (str(told.get(f"llm_do.approval.{name}") or "") for name in ("decision", "by"))
    outcome = f"{decision} by {by or 'somebody'}" if decision else ""
    return Period("wait", str(told.get("llm_do.summary") or ""), begin, end, outcome=outcome)


def _moment(nanoseconds: int | None) -> datetime | None:
    return None if nanoseconds is None else datetime.fromtimestamp(nanoseconds / 1_000_000_000, UTC)
