"""Results of a run as rows, and rows as CSV that spreadsheets and data tools read.

A row for each item of a batch, or one for any other run. They are read from the run's own history, which has the end
of each item: no listing is asked, which may be a moment late, and no history of an item. Of CSV it owns the form:
commas, CRLF at the end of a row, LF within a cell, a column for each key of a structured output. A text that a
spreadsheet would take for a formula gets an apostrophe before it. Values of configured keys are removed.

Tracks say when each invocation asked its model, called a tool, waited for a person, and the files it wrote, with the
times of the spans that traces are made of. They need no worker service.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.history.events import ENDS, as_object, callee_of, read_chain, read_events
from llm_do_temporal.client.history.invocations import Lacks
from llm_do_temporal.client.history.questions import ignored_signal
from llm_do_temporal.client.record.facts import FileReader, RunFacts, WrittenFile, facts_at_start, last_written
from llm_do_temporal.client.traces import Tracer
from llm_do_temporal.client.views.run_view import Item, results_of
from llm_do_temporal.client.views.tree import AT_ONCE, Branch
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.runs import first_line
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import without_halves, written_out
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE

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
            part = TrackPart(run, branch.workflow_id, branch.path)
            handle = self._client.get_workflow_handle(branch.workflow_id, run_id=run_id)
            try:
                async for event in read_events(handle, wait=False, converter=self._client.data_converter):
                    part.take(event)
            except RPCError as error:
                if not is_missing(error):
                    raise
                break  # begun a moment ago, or no longer kept
            parts.insert(0, part)
            run_id = part.before
            if run_id is None or (since is not None and part.begin is not None and part.begin <= since):
                break
        return track_of(parts)


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
        self.ignored: list[str] = []

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
    if span.start_time is None:
        return None
    begin = datetime.fromtimestamp(span.start_time / 1_000_000_000, UTC)
    end = None if span.end_time is None else datetime.fromtimestamp(span.end_time / 1_000_000_000, UTC)
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


BOM = "\ufeff"
"""Mark at the beginning of a file, without which Excel does not read it as UTF-8."""
MOST_COLUMNS = 200
"""Keys of outputs that become columns; outputs with more are one column of JSON."""
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""Beginnings of formulas, the wide forms among them: some programs take them for the narrow ones."""
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_HERE = "what the run was given is kept in the blob store of its workshop, which is not at hand here"


@dataclass(frozen=True)
class ResultRow:
    """Row of a table of results."""

    lead: Mapping[str, Any]
    output: Any
    scores: Mapping[str, Any]
    tail: Mapping[str, Any]


def csv_text(rows: Sequence[ResultRow]) -> str:
    """Return the table; all rows have the same columns before the output, and behind the scores.

    Structured outputs have a column for each of their keys, in the order in which these appear.
    """
    given = [row.output for row in rows if row.output is not None]
    is_structured = bool(given) and all(isinstance(output, dict) for output in given)
    found = list(dict.fromkeys(key for output in given for key in output)) if is_structured else []
    keys = found if 0 < len(found) <= MOST_COLUMNS else None
    scores = list(dict.fromkeys(name for row in rows for name in row.scores))
    outputs = ["output"] if keys is None else [f"output.{key}" for key in keys]
    lead, tail = (list(rows[0].lead), list(rows[0].tail)) if rows else ([], [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_cell(name) for name in (*lead, *outputs, *(f"score.{name}" for name in scores), *tail)])
    for row in rows:
        output: list[Any] = [row.output] if keys is None else [as_object(row.output).get(key) for key in keys]
        values = [*row.lead.values(), *output, *(row.scores.get(name) for name in scores), *row.tail.values()]
        writer.writerow([_cell(value) for value in values])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return remove_keys(without_halves(json.dumps(value, ensure_ascii=False)))
    text = remove_keys(without_halves(value)).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub(lambda found: written_out(found[0]), text)
    is_formula = text.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


@dataclass
class ShownResult:
    """Result of an item, or of a run without items."""

    item: Item
    files: tuple[str, ...]
    """Names of the files that it was given besides those of a batch; of a run without items, all of its files."""
    given: Any
    """Prompt, or typed input; None without one."""
    started_at: datetime | None = None
    seconds: float | None = None
    """Seconds from its start to its end; None: it has not begun, or has not ended."""

    @property
    def words(self) -> str:
        """The output as text, of a structured one the plain fields, the short ones first; or the error in its place."""
        if self.item.error is not None:
            return str(self.item.error["message"])
        given = as_object(self.item.output).items()
        fields = [(name, one) for name, one in given if one is not None and not isinstance(one, dict | list)]
        plain = sorted((f"{name}: {_text(one)}" for name, one in fields), key=len)
        return " · ".join(plain) or _text(self.item.output)

    def take(self, event: HistoryEvent) -> None:
        """Take in an event of the item: its start, or its end."""
        at = event.event_time.ToDatetime()
        if self.item.take_end(event):
            self.seconds = None if self.started_at is None else round((at - self.started_at).total_seconds(), 3)
        elif self.started_at is None:
            self.started_at = at

    def as_row(self, run: str) -> ResultRow:
        """Return its row in a table."""
        item, usage = self.item, self.item.usage
        lead = {"item": item.name, "file": "\n".join(self.files), "given": self.given, "status": item.status}
        error = item.error or {}
        tail = {
            "error": ": ".join(str(error[part]) for part in ("code", "message") if error.get(part)),
            "truncated": item.truncated,
            "input_tokens": None if item.is_open else usage.input_tokens,
            "output_tokens": None if item.is_open else usage.output_tokens,
            "cost_usd": None if usage.cost_usd is None else float(usage.cost_usd),
            "seconds": self.seconds,
            "run": run,
            "path": item.path,
        }
        return ResultRow(lead, item.output, {}, tail)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def results_csv(run: str, results: Sequence[ShownResult]) -> str:
    """Return the results as CSV."""
    return csv_text([result.as_row(run) for result in results])


async def read_results(client: Client, run: str) -> list[ShownResult]:
    """Return the results of a run, in the order of its items.

    Raises RPCError, KeyMismatch, and UsageError where the values of the run are kept in a blob store that is not here.
    """
    results: dict[str, ShownResult] = {}
    is_batch = False
    async for event in read_chain(client, run, None, wait=False):
        if event.HasField("workflow_execution_started_event_attributes") and not is_batch:
            facts = facts_at_start(event)
            if facts.prompt == KEPT_OUTSIDE:
                raise UsageError(_NOT_HERE, next_step="Name the workshop with --workshop DIR, where its blob store is.")
            is_batch = bool(facts.items)  # a run that reads its items itself goes on as new with them
            if is_batch or not results:
                results = _beginning(run, facts)
        found = results.get(callee_of(event) or ("" if is_batch else run))
        if found is not None:
            found.take(event)
        if is_batch and event.event_type in ENDS:
            for result, outcome in zip(results.values(), results_of(event), strict=False):
                # It never became a workflow, or its history is no longer kept.
                if result.item.is_open:
                    result.item.take_result(outcome)
                    result.item.status = outcome.status
    return list(results.values())


def _beginning(run: str, facts: RunFacts) -> dict[str, ShownResult]:
    """Return what will be the results, by the ids of the workflows that have them."""
    if not facts.items:
        files = tuple(file.path for file in facts.attachments)
        return {run: ShownResult(Item(first_line(facts.prompt) or run, ENTRY_PATH), files, facts.prompt or facts.input)}
    results: dict[str, ShownResult] = {}
    for number, given in enumerate(facts.items, 1):
        item = Item.of(given, number)
        # Of a file that cannot be used there is no attachment; the item has its name.
        named = [given.name.rpartition("/")[2]] if given.unusable else []
        files = tuple(named or [file.path for file in given.attachments])
        results[f"{run}/{item.path}"] = ShownResult(item, files, given.prompt or given.input)
    return results
