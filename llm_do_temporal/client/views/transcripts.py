"""Transcript of one invocation, read from its history and from nothing else: no worker service is needed.

A `Transcriber` takes one history event at a time and returns the entries that it adds. A workflow that was continued as
new has one history for each part of its conversation, of about a hundred turns; `read_page` reads one of them, the
newest first, so a conversation of thousands of turns opens as quickly as a short one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, cast

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.history.events import (
    ENDS,
    Ending,
    as_object,
    ending,
    failed_activity,
    first_object,
    read_chain,
    read_events,
    read_first,
)
from llm_do_temporal.client.history.invocations import (
    Beginning,
    Beginnings,
    CallOrigins,
    RequestParts,
    is_failed,
    is_result,
    origin_of_turn,
)
from llm_do_temporal.client.history.questions import DeskNews, news_at_invocation
from llm_do_temporal.client.views.run_view import template_of
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, is_kept_outside
from llm_do_temporal.telemetry.contents import arguments_of, content_items, parts_of, scrubbed

EntryKind = Literal[
    "template",
    "instructions",
    "prompt",
    "text",
    "thinking",
    "call",
    "result",
    "turn",
    "question",
    "decision",
    "error",
    "end",
]
ENOUGH_TURNS = 20
"""Least number of turns in the part that is opened first, where there are so many."""


@dataclass(frozen=True)
class File:
    """A file in a conversation; its bytes are elsewhere."""

    name: str
    media_type: str
    sha256: str
    bytes: int | None = None


@dataclass(frozen=True)
class Entry:
    """Message or happening, in its place in the conversation."""

    kind: EntryKind
    at: datetime
    turn: int
    """The model turn it belongs to, from 1; 0 for what came before the first."""
    event: int
    """The id of the event that tells of it, in the history of its run of the workflow."""
    text: str = ""
    """Prompt, text, thinking, error; of a template its path, of a question its summary, of a decision its note, of an
    end its name."""
    name: str = ""
    """The tool of a call, a result or a question; the model of a turn; who took a decision."""
    call: str = ""
    """Id that a call and its result share; of a question and its decision, the number of the asking call."""
    value: Any = None
    """Arguments of a call or a question, a result, the decision that was taken, the output of an end, what was filled
    into a template."""
    failed: bool = False
    """Whether a result tells the model of a refusal or a failure."""
    files: tuple[File, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Details. Of a turn: `input_tokens`, `output_tokens`, `cost_usd`, `finish_reason`, `seconds`, `estimated`,
    `reused`, a Reused as JSON where no model was asked. Of a result: `reused` where no call was made, with `child`, the
    path of the invocation that it had begun; `anew`, the reason why one of another run was not reused. Of a question:
    `diff`, `reason`. Of a decision: `id`, `door`, `args`; `source`, the approval of another run, where a script answers
    as it was answered there. Of an error: `next_step`. Of a template: `sha256`, `input`."""


class Transcriber:
    """Turns the events of one invocation's histories into entries, in order."""

    def __init__(self) -> None:
        self.turn = 0
        self.before: str | None = None
        """The run of the workflow whose history comes before, where the first one read here is not the beginning."""
        self.run_id = ""
        """The run of the workflow whose history is being read."""
        self._asked: dict[int, datetime] = {}
        self._origins = CallOrigins()
        self._requests = RequestParts()
        self.has_begun = False
        self._beginnings = Beginnings()

    def apply(self, event: HistoryEvent) -> list[Entry]:
        """Return the entries that this event adds to the conversation."""
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            self._requests = RequestParts()
            self.run_id = event.workflow_execution_started_event_attributes.original_execution_run_id
        self._origins.take(event)
        begun = self._beginnings.take(event)
        if begun is not None:
            return self._begin(begun, event)
        if not self.has_begun:
            return []
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            return self._scheduled(event)
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            return self._answered(event)
        failed = failed_activity(event)
        if failed is not None:
            if self._asked.pop(failed[0], None) is None or event.HasField("activity_task_canceled_event_attributes"):
                return []
            is_late = event.HasField("activity_task_timed_out_event_attributes")
            return [self._entry("error", event, "the turn took too long" if is_late else failed[1].message)]
        news = news_at_invocation(event, is_entry=self._beginnings.is_entry)
        if news is not None:
            return self._news(news, event)
        end = ending(event) if kind in ENDS else None
        return [] if end is None else self._ended(end, event)

    def _entry(self, kind: EntryKind, event: HistoryEvent, text: str = "", **more: Any) -> Entry:
        return Entry(kind, event.event_time.ToDatetime(UTC), self.turn, event.event_id, text, **more)

    def _begin(self, begun: Beginning, event: HistoryEvent) -> list[Entry]:
        if self.has_begun:
            return []  # continued as new; what was said before was read
        self.has_begun = True
        self._origins.begun(begun.given)
        if begun.before is not None:
            self.before = begun.before
            # Those of the invocation itself.
            spent, below = (as_object(begun.continued.get(name)) for name in ("usage", "below"))
            self.turn = int(spent.get("requests") or 0) - int(below.get("requests") or 0)
            return []
        given = begun.given
        instructions = as_object(given.get("worker")).get("instructions")
        prompt = KEPT_OUTSIDE if begun.is_outside else str(given.get("prompt") or "")
        files = tuple(
            File(str(one.get("path")), str(one.get("media_type")), str(one.get("sha256")), one.get("bytes"))
            for one in cast("list[dict[str, Any]]", given.get("attachments") or [])
        )
        entries = [self._entry("prompt", event, prompt, value=given.get("input"), files=files)]
        if instructions:
            entries.insert(0, self._entry("instructions", event, str(instructions)))
        if (called := template_of(given)) is not None:
            details = {"sha256": called["sha256"], "input": called["input"]}
            entries.insert(0, self._entry("template", event, called["name"], value=called["params"], details=details))
        return entries

    def _scheduled(self, event: HistoryEvent) -> list[Entry]:
        if event.activity_task_scheduled_event_attributes.activity_type.name == REQUEST_MODEL.name:
            self._asked[event.event_id] = event.event_time.ToDatetime(UTC)
        parts = self._requests.take(event)
        if parts is None:
            return [self._entry("result", event, KEPT_OUTSIDE)]
        return [self._part(part, event) for part in parts]

    def _part(self, part: dict[str, Any], event: HistoryEvent) -> Entry:
        """Return the entry of a part of a request: a tool's result, or a message of the loop itself."""
        if is_result(part):
            tool, call = str(part.get("tool_name") or ""), str(part.get("tool_call_id") or "")
            value, files = _content(part.get("content"))
            failed, origin = is_failed(part), self._origins.details_of(call)
            told = self._entry("result", event, name=tool, call=call, value=value, failed=failed, files=files)
            return replace(told, details=origin) if origin else told
        items = content_items(part.get("content"), binary=False)
        text = "\n\n".join(str(item.get("content") or "") for item in items if item["type"] != "file")
        return self._entry("prompt", event, text, files=_files(items))

    def _answered(self, event: HistoryEvent) -> list[Entry]:
        attributes = event.activity_task_completed_event_attributes
        asked = self._asked.pop(attributes.scheduled_event_id, None)
        if asked is None:
            return []
        self.turn += 1
        response = first_object(attributes.result.payloads)
        self._origins.answered(response)
        said = [entry for part in parts_of(response) if (entry := self._answer(part, event)) is not None]
        if any(map(is_kept_outside, attributes.result.payloads)):
            said = [self._entry("text", event, KEPT_OUTSIDE)]
        spent = _spent(response) | {"seconds": (event.event_time.ToDatetime(UTC) - asked).total_seconds()}
        origin = origin_of_turn(response)
        if origin is not None:
            spent["reused"] = origin.model_dump(include={"run", "path", "turn"})
        return [*said, self._entry("turn", event, name=str(response.get("model_name") or ""), details=spent)]

    def _answer(self, part: dict[str, Any], event: HistoryEvent) -> Entry | None:
        kind = part.get("part_kind")
        if kind in ("text", "thinking"):
            text = str(part.get("content") or "")
            return self._entry(cast("EntryKind", kind), event, text) if text else None
        name, call = str(part.get("tool_name") or kind), str(part.get("tool_call_id") or "")
        if kind in ("tool-call", "builtin-tool-call"):
            return self._entry("call", event, name=name, call=call, value=scrubbed(arguments_of(part), binary=False))
        value, files = _content(part.get("content"))
        return self._entry("result", event, name=name, call=call, value=value, files=files)

    def _news(self, news: DeskNews, event: HistoryEvent) -> list[Entry]:
        told, key = news.message, str(news.message.get("key") or "")
        if news.kind == "asked":
            summary, tool = str(told.get("summary") or ""), str(told.get("tool") or "")
            summary, given = KEPT_OUTSIDE if news.is_outside else summary, told.get("args")
            shown = {"diff": told.get("diff"), "reason": told.get("reason")}
            return [self._entry("question", event, summary, name=tool, call=key, value=given, details=shown)]
        if news.kind != "decided":
            return []
        verdict = as_object(told.get("verdict"))
        shown = {"id": told.get("id"), "door": verdict.get("door"), "args": None}
        if verdict.get("door") == "script" and verdict.get("granted_by"):
            shown["source"] = verdict["granted_by"]
        if verdict.get("decision") == "modify":
            shown["args"] = verdict.get("args")
        note, by = str(verdict.get("note") or ""), str(verdict.get("by") or "")
        return [self._entry("decision", event, note, name=by, call=key, value=verdict.get("decision"), details=shown)]

    def _ended(self, end: Ending, event: HistoryEvent) -> list[Entry]:
        entries: list[Entry] = []
        if end.failure.message:
            shown = {"next_step": end.told.get("next_step")}
            entries = [self._entry("error", event, end.failure.message, details=shown)]
        return [*entries, self._entry("end", event, end.status, value=end.output)]


def _spent(response: Mapping[str, Any]) -> dict[str, Any]:
    usage = as_object(response.get("usage"))
    cost = usage.get("cost")
    return {
        "input_tokens": int(usage.get("input_tokens") or 0),
        "output_tokens": int(usage.get("output_tokens") or 0),
        "cost_usd": None if cost is None else Decimal(str(cost)),
        "finish_reason": response.get("finish_reason"),
        **({"estimated": True} if usage.get("unmeasured_requests") else {}),
    }


def _content(content: Any) -> tuple[Any, tuple[File, ...]]:
    """Return the text of a part, and the files in it."""
    if isinstance(content, str):
        return content, ()
    files = _files(content_items(content, binary=False)) if isinstance(content, list) else ()
    return scrubbed(content, binary=False), files


def _files(items: Sequence[Mapping[str, Any]]) -> tuple[File, ...]:
    found: list[File] = []
    for item in items:
        if item["type"] == "file":
            size = item.get("bytes")
            name, media_type, sha256 = (str(item.get(key) or "") for key in ("name", "media_type", "sha256"))
            found.append(File(name, media_type, sha256, size if isinstance(size, int) else None))
    return tuple(found)


@dataclass(frozen=True)
class Page:
    """A part of the conversation of one invocation."""

    entries: tuple[Entry, ...]
    before: str | None
    """The run of the workflow that holds the part before this one; None: this is the beginning."""
    run_id: str
    """The run of the workflow in which the last entry stands."""
    last_event: int
    """Id of the last event that was read in the history of that run."""
    has_begun: bool = True
    """Whether an invocation has begun: in the workflow of a run none has before its worker is loaded, or ever has if it
    is a batch."""


async def read_page(client: Client, workflow_id: str, run_id: str | None = None) -> Page:
    """The part of a conversation that is the history of one run of its workflow; None: the newest. Raises RPCError."""
    transcriber, entries, last = Transcriber(), list[Entry](), 0
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    async for event in read_events(handle, wait=False, converter=client.data_converter):
        entries += transcriber.apply(event)
        last = event.event_id
    return Page(tuple(entries), transcriber.before, run_id or transcriber.run_id, last, transcriber.has_begun)


async def read_newest(client: Client, workflow_id: str, *, turns: int = ENOUGH_TURNS) -> Page:
    """The newest part of a conversation, and those before it until there are so many turns. Raises RPCError."""
    page = await read_page(client, workflow_id)
    while page.before is not None and sum(entry.kind == "turn" for entry in page.entries) < turns:
        earlier = await read_page(client, workflow_id, page.before)
        page = Page((*earlier.entries, *page.entries), earlier.before, page.run_id, page.last_event)
    return page


async def read_on(client: Client, workflow_id: str, run_id: str, after: int) -> Page:
    """Return the part of a conversation after this event of this run of its workflow. Raises RPCError."""
    transcriber, entries, last = Transcriber(), list[Entry](), after
    async for event in read_chain(client, workflow_id, run_id, wait=False):
        told = transcriber.apply(event)
        if transcriber.run_id != run_id or event.event_id > after:
            entries += told
            last = event.event_id
    return Page(tuple(entries), transcriber.before, transcriber.run_id or run_id, last)


async def read_transcript(client: Client, workflow_id: str, *, from_turn: int = 0) -> AsyncIterator[Entry]:
    """The conversation of an invocation from this turn on, in order. Raises RPCError."""
    transcriber = Transcriber()
    async for event in read_chain(client, workflow_id, await _run_of(client, workflow_id, from_turn), wait=False):
        for entry in transcriber.apply(event):
            if entry.turn >= from_turn:
                yield entry


async def read_part_with(client: Client, workflow_id: str, turn: int) -> Page:
    """The part of a conversation that has this turn in it, or the newest one. Raises RPCError."""
    return await read_page(client, workflow_id, await _run_of(client, workflow_id, turn))


async def _run_of(client: Client, workflow_id: str, turn: int) -> str | None:
    """The run of the workflow that has this turn, or the earliest that is still kept."""
    run_id = later = None
    while True:
        begun = Transcriber()
        try:
            begun.apply(await read_first(client, workflow_id, run_id))
        except RPCError as error:
            if not is_missing(error) or later is None:
                raise
            return later
        if begun.before is None or begun.turn < turn:
            return begun.run_id
        later, run_id = begun.run_id, begun.before
