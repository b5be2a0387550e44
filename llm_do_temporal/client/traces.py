"""Traces of runs, made from their histories: the spans of OpenTelemetry, and the file that they are written to.

Owns which event begins and ends which span: the run, its invocations, their model turns, tool calls, effects and
approvals. Ids and times come from the histories, so that reading twice gives the same trace; an event that was taken in
before is passed over. Needs no worker service and changes nothing about a run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO, cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.events import (
    ENDS,
    Ending,
    LocalEffect,
    activity_of,
    as_object,
    ending,
    failed_activity,
    first_object,
    local_effect,
    summary_of,
)
from llm_do_temporal.client.history.invocations import (
    Beginnings,
    CallOrigins,
    is_failed,
    model_aliases,
    origin_line,
    origin_of_turn,
)
from llm_do_temporal.client.history.questions import DESK_ACTIVITIES, DeskNews, news_at_invocation
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, KeyMismatch, UsageError, error_classes
from llm_do_temporal.messages.activities import RECORD_AT_DESK, REQUEST_MODEL
from llm_do_temporal.policy.models import models_of, read_serving_id
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.telemetry.contents import (
    JsonObject,
    answer_attributes,
    approval_shape,
    arguments_of,
    as_text,
    input_messages,
    invocation_shape,
    new_messages,
    output_message,
    parts_of,
    request_messages,
    run_shape,
    scrubbed,
    tool_shape,
    turn_shape,
)

_NAME = "llm-do-temporal"
_FINAL = "final_result"
"""Name of the tool call that carries structured output; it calls nothing."""
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]")
_NAME_CHARS = 100


@dataclass
class OpenSpan:
    """Span that has begun. Times are nanoseconds since 1970, in UTC."""

    key: str
    """Name of the span within its trace, the same each time the histories are read."""
    name: str
    start: int
    parent: str | None = None
    kind: SpanKind = SpanKind.INTERNAL
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[Event] = field(default_factory=list[Event])


class OpenCalls:
    """Calls that are open and have started no invocation yet, in the order in which they were made."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._made = 0
        self._alike: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        """Calls of a worker that are alike in something; some of them may no longer be open."""

    def add(self, key: str, tool: str, arguments: Any) -> None:
        """Add a call whose span has this key."""
        named = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
        self._places[key] = self._made = self._made + 1
        files: Any = named.get("attachments") or []
        traits = {""} | {_trait(files=files)}
        for said in (named.get("input"), named.get("input_data")):
            traits |= {_trait(said=said), _trait(said=said, files=files)}
        worker = named.get("worker_name")
        for callee in {tool, worker} if isinstance(worker, str) else {tool}:
            for trait in traits:
                self._alike[callee, trait].append(key)

    def remove(self, key: str) -> None:
        """Remove a call that has returned."""
        self._places.pop(key, None)

    def take(self, worker: str, said: Any, files: Sequence[Any]) -> str | None:
        """Remove the call that is most like the start of an invocation, and return its key; None: there is none."""
        given = list(files)
        for traits in ((_trait(said=said, files=given),), (_trait(said=said), _trait(files=given)), ("",)):
            found = [key for trait in traits if (key := self._first(worker, trait)) is not None]
            if found:
                first = min(found, key=self._places.__getitem__)
                self.remove(first)
                return first
        return None

    def _first(self, worker: str, trait: str) -> str | None:
        calls = self._alike.get((worker, trait))
        while calls:
            if calls[0] in self._places:
                return calls[0]
            calls.popleft()
        return None


def _trait(**what: Any) -> str:
    return json.dumps(what, sort_keys=True)


@dataclass
class Flow:
    """Workflow, as far as its history was read."""

    workflow_id: str
    span: OpenSpan
    execution: str = ""
    """The execution that is being read: a workflow that continues as new has several."""
    model: str = ""
    turns: dict[int, OpenSpan] = field(default_factory=dict[int, OpenSpan])
    """Open model turns by the id of the event that scheduled them."""
    effects: dict[int, OpenSpan] = field(default_factory=dict[int, OpenSpan])
    calls: dict[str, OpenSpan] = field(default_factory=dict[str, OpenSpan])
    unclaimed: OpenCalls = field(default_factory=OpenCalls)
    """Open tool calls of which no invocation is known that they have started."""
    questions: dict[str, OpenSpan] = field(default_factory=dict[str, OpenSpan])
    origins: CallOrigins = field(default_factory=CallOrigins)
    answered: bool = False

    @property
    def open_spans(self) -> list[OpenSpan]:
        """Return the spans that have begun and not ended, the innermost first."""
        inner = [*self.questions.values(), *self.effects.values(), *self.calls.values(), *self.turns.values()]
        return inner if self.answered else [*inner, self.span]


def reason_of(failure: Failure) -> tuple[str, str]:
    """Return the code and the message of a failure: the first error of ours in it, else the innermost."""
    while True:
        code = failure.application_failure_info.type if failure.HasField("application_failure_info") else ""
        if code in error_classes() or not failure.HasField("cause"):
            return code or "error", failure.message or "failed"
        failure = failure.cause


def nanoseconds(moment: Any) -> int | None:
    """A moment written as text, in nanoseconds since 1970; None where it is none."""
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp() * 1_000_000) * 1_000
    except ValueError:
        return None


class Tracer:
    """Turns the events of one run into spans."""

    def __init__(self, run: str, *, blobs: BlobStore | None = None, binary: bool = False) -> None:
        """Make a tracer. With `binary`, spans hold the bytes of files; those of attachments are read from `blobs`."""
        self._run = run
        self._resource = Resource({"service.name": _NAME, "service.version": version(_NAME)})
        self._scope = InstrumentationScope(_NAME, version(_NAME))
        self._blobs = blobs
        self._binary = binary
        self._flows: dict[str, Flow] = {}
        """Flows by the id of the workflow; that of the run itself is apart."""
        self._run_flow: Flow | None = None
        self._beginnings: dict[str, Beginnings] = {}
        self._callers: dict[str, str] = {}
        """The key of the span that started an invocation, by workflow id."""
        self._seen: set[tuple[str, str, int, int]] = set()

    def take(self, workflow_id: str, event: HistoryEvent) -> list[ReadableSpan]:
        """Return the spans that this event ends, parents after their children."""
        at = event.event_time.ToNanoseconds()
        self._begin(workflow_id, event, at)
        found: list[ReadableSpan] = []
        for flow in self._flows_of(workflow_id, event):
            # A workflow task that was never written down may have been told of with the number of this event.
            seen = (flow.span.key, flow.execution, event.event_id, event.event_type)
            if seen not in self._seen:
                self._seen.add(seen)
                found += self._apply(flow, event, at)
        return found

    def rest(self) -> list[ReadableSpan]:
        """Return the spans that have not ended, with no end time."""
        found: list[ReadableSpan] = []
        run = [] if self._run_flow is None else [self._run_flow]
        for flow in (*reversed(self._flows.values()), *run):
            for span in flow.open_spans:
                span.attributes["llm_do.state"] = "open"
                found.append(self._closed(span, None))
        return found

    def _closed(self, span: OpenSpan, end: int | None, *, error: str | None = None) -> ReadableSpan:
        """Return the span as it is exported; `end` is None for one that is still open."""
        return ReadableSpan(
            name=span.name,
            context=self._context(span.key),
            parent=None if span.parent is None else self._context(span.parent),
            resource=self._resource,
            attributes={name: value for name, value in span.attributes.items() if value is not None},
            events=span.events,
            kind=span.kind,
            status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error),
            start_time=span.start,
            end_time=None if end is None else max(span.start, end),
            instrumentation_scope=self._scope,
        )

    def _context(self, key: str) -> SpanContext:
        """Return the ids of a span, which depend on the run and its key alone."""
        trace, span = (hashlib.sha256(text.encode()).digest() for text in (self._run, key))
        ids = int.from_bytes(trace[:16], "big"), int.from_bytes(span[:8], "big")
        return SpanContext(*ids, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def _begin(self, workflow_id: str, event: HistoryEvent, at: int) -> None:
        """Begin the flow that this event begins, if it does; one that has begun may have another execution now."""
        begun = self._beginnings.setdefault(workflow_id, Beginnings()).take(event)
        started = event.workflow_execution_started_event_attributes
        if workflow_id == self._run and self._run_flow is None and started.original_execution_run_id:
            given = first_object(started.input.payloads)
            name, attributes = run_shape(self._run, str(given.get("worker") or ""))
            attributes |= {
                "llm_do.worker": given.get("worker"),
                "llm_do.prompt": given.get("prompt") or None,
                "llm_do.mode": given.get("mode"),
                "llm_do.started_by": given.get("started_by") or None,
            }
            self._run_flow = Flow(workflow_id, OpenSpan(f"{self._run}:run", name, at, attributes=attributes))
        if begun is not None and workflow_id not in self._flows:
            self._flows[workflow_id] = self._begun(workflow_id, begun.given, at)
            self._flows[workflow_id].origins.begun(begun.given)
            if workflow_id == self._run and self._run_flow is not None:
                self._flows[workflow_id].execution = self._run_flow.execution
        for flow in (self._flows.get(workflow_id), self._run_flow if workflow_id == self._run else None):
            if flow is not None and started.original_execution_run_id:
                flow.execution = started.original_execution_run_id

    def _flows_of(self, workflow_id: str, event: HistoryEvent) -> list[Flow]:
        """Return the flows that an event of this workflow belongs to, the innermost first."""
        flow, run = self._flows.get(workflow_id), self._run_flow
        if workflow_id != self._run or run is None:
            return [] if flow is None else [flow]
        if event.event_type in ENDS:
            return [run] if flow is None else [flow, run]
        local, begun = local_effect(event), event.activity_task_scheduled_event_attributes.activity_type.name
        effect = begun if local is None else local.activity
        # The run's own effects are not its entry invocation's.
        is_of_run = effect in DESK_ACTIVITIES and effect != RECORD_AT_DESK.name
        is_own = is_of_run or activity_of(event) in run.effects
        return [run] if is_own or flow is None else [flow]

    def _begun(self, workflow_id: str, given: JsonObject, at: int) -> Flow:
        worker = as_object(given.get("worker"))
        first = next(iter(models_of(str(given.get("model") or ""))), "")
        model = model_aliases(given).get(first, first)
        name, attributes = invocation_shape(
            str(worker.get("name") or ""),
            workflow_id=workflow_id,
            path=str(given.get("path") or ""),
            depth=int(given.get("depth") or 0),
            sha256=worker.get("sha256"),
            model=model,
        )
        span = OpenSpan(
            key=f"{workflow_id}:invocation",
            name=name,
            start=at,
            parent=self._callers.get(workflow_id, f"{self._run}:run"),
            attributes={
                **attributes,
                "gen_ai.agent.description": worker.get("description") or None,
                "gen_ai.system_instructions": worker.get("instructions"),
                "llm_do.worker.source": worker.get("source"),
                "llm_do.prompt": given.get("prompt") or None,
                "llm_do.input": None if given.get("input") is None else as_text(given["input"]),
            },
        )
        self._attach(span, given, at)
        return Flow(workflow_id, span, model=model)

    def _attach(self, span: OpenSpan, given: JsonObject, at: int) -> None:
        """Add an event for each file: name, type, size, digest; its bytes only where they are wanted and there."""
        for attachment in cast("list[JsonObject]", given.get("attachments") or []):
            digest = str(attachment.get("sha256") or "")
            facts: dict[str, Any] = {
                "llm_do.attachment.name": str(attachment.get("path") or ""),
                "llm_do.attachment.media_type": str(attachment.get("media_type") or ""),
                "llm_do.attachment.bytes": int(attachment.get("bytes") or 0),
                "llm_do.attachment.sha256": digest,
            }
            if self._binary:
                try:
                    data = None if self._blobs is None else self._blobs.read(digest)
                except (EffectFailed, BlobsUnreachable, KeyMismatch):
                    data = None
                if data is None:
                    facts["llm_do.attachment.missing"] = True
                else:
                    facts["llm_do.attachment.data"] = base64.b64encode(data).decode()
            span.events.append(Event("attachment", facts, at))

    def _apply(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        kind = event.event_type
        flow.origins.take(event)
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            return self._scheduled(flow, event, at)
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            started = event.activity_task_started_event_attributes
            span = flow.turns.get(started.scheduled_event_id) or flow.effects.get(started.scheduled_event_id)
            if span is not None:
                span.attributes["llm_do.attempts"] = started.attempt
            return []
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            return self._completed(flow, event, at)
        local = local_effect(event)
        if local is not None and local.activity != RECORD_AT_DESK.name:
            return self._local(flow, event, local)
        if kind == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            child = event.start_child_workflow_execution_initiated_event_attributes
            self._callers[child.workflow_id] = self._caller(flow, first_object(child.input.payloads))
            return []
        news = news_at_invocation(event, is_entry=flow.workflow_id == self._run)
        if news is not None:
            return self._told(flow, news, f"{flow.workflow_id}:{flow.execution}:{event.event_id}", at)
        end = ending(event) if kind in ENDS else None
        return self._failed(flow, event, at) if end is None else self._ended(flow, end, at)

    def _ended(self, flow: Flow, end: Ending, at: int) -> list[ReadableSpan]:
        span, error = flow.span, None
        if end.status == "completed":
            span.attributes["llm_do.output"] = as_text(end.told.get("output"))
            for name in ("input_tokens", "output_tokens"):
                span.attributes[f"gen_ai.usage.{name}"] = as_object(end.told.get("usage")).get(name)
        else:
            failed = end.status == "failed"
            span.attributes["error.type"], error = reason_of(end.failure) if failed else (end.status, end.status)
        inner = [self._closed(one, at, error=error) for one in flow.open_spans if one is not span]
        for opened in (flow.turns, flow.effects, flow.calls, flow.questions):
            opened.clear()
        flow.answered = True
        return [*inner, self._closed(span, at, error=error)]

    def _scheduled(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        attributes = event.activity_task_scheduled_event_attributes
        name = attributes.activity_type.name
        key = f"{flow.workflow_id}:{flow.execution}:{event.event_id}"
        if name != REQUEST_MODEL.name:
            shown = {"llm_do.activity": name, "llm_do.summary": summary_of(event) or None}
            flow.effects[event.event_id] = OpenSpan(key, name, at, flow.span.key, attributes=shown)
            return []
        request = first_object(attributes.input.payloads)
        messages = new_messages(request_messages(request))
        settings = as_object(request.get("model_settings"))
        try:
            model = read_serving_id(str(request["model_id"]))[1].model
        except (ValueError, KeyError):
            model = flow.model
        name, shape = turn_shape(flow.workflow_id, model or flow.model)
        flow.turns[event.event_id] = OpenSpan(
            key,
            name,
            at,
            flow.span.key,
            kind=SpanKind.CLIENT,
            attributes={
                **shape,
                "gen_ai.request.temperature": settings.get("temperature"),
                "gen_ai.request.max_tokens": settings.get("max_tokens"),
                "gen_ai.input.messages": as_text(input_messages(messages, binary=self._binary)),
            },
        )
        return self._returned(flow, messages, at)

    def _local(self, flow: Flow, event: HistoryEvent, effect: LocalEffect) -> list[ReadableSpan]:
        """An effect that ran within the workflow's task: known once it has ended."""
        shown = {"llm_do.activity": effect.activity, "llm_do.summary": effect.summary, "llm_do.attempts": 1}
        key = f"{flow.workflow_id}:{flow.execution}:{event.event_id}"
        span = OpenSpan(key, effect.activity, effect.started_at, flow.span.key, attributes=shown)
        if effect.failure is None:
            return [self._closed(span, effect.ended_at)]
        span.attributes["error.type"], message = reason_of(effect.failure)
        return [self._closed(span, effect.ended_at, error=message)]

    def _completed(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        attributes = event.activity_task_completed_event_attributes
        effect = flow.effects.pop(attributes.scheduled_event_id, None)
        if effect is not None:
            return [self._closed(effect, at)]
        turn = flow.turns.pop(attributes.scheduled_event_id, None)
        if turn is None:
            return []
        response = first_object(attributes.result.payloads)
        said = as_text([output_message(response, binary=self._binary)])
        origin = origin_of_turn(response)
        turn.attributes |= {**answer_attributes(response), "gen_ai.output.messages": said}
        turn.attributes["llm_do.reused_from"] = None if origin is None else origin.place
        flow.origins.answered(response)
        for part in parts_of(response):
            if part.get("part_kind") == "tool-call" and not str(part.get("tool_name")).startswith(_FINAL):
                self._call(flow, turn, part, at)
        return [self._closed(turn, at)]

    def _failed(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        """The end of an activity without a result, where this event is one."""
        failed = failed_activity(event)
        span = None if failed is None else flow.turns.pop(failed[0], None) or flow.effects.pop(failed[0], None)
        if failed is None or span is None:
            return []
        span.attributes["error.type"], message = reason_of(failed[1])
        return [self._closed(span, at, error=message)]

    def _call(self, flow: Flow, turn: OpenSpan, part: JsonObject, at: int) -> None:
        """A tool call begins when its turn has been answered."""
        call_id = str(part.get("tool_call_id"))
        name, shape = tool_shape(str(part.get("tool_name")), call_id)
        arguments = arguments_of(part)
        key = f"{turn.key}:{call_id}"
        if (before := flow.calls.get(call_id)) is not None:  # an id that a model gave twice
            flow.unclaimed.remove(before.key)
        flow.unclaimed.add(key, str(part.get("tool_name")), arguments)
        shape |= {"gen_ai.tool.call.arguments": as_text(scrubbed(arguments, binary=self._binary))}
        flow.calls[call_id] = OpenSpan(key, name, at, flow.span.key, attributes=shape)

    def _returned(self, flow: Flow, messages: list[JsonObject], at: int) -> list[ReadableSpan]:
        """Calls end with the result that the next request carries, at the time the result was made."""
        found: list[ReadableSpan] = []
        for part in (part for message in messages for part in parts_of(message)):
            span = flow.calls.pop(str(part.get("tool_call_id")), None)
            if span is None:
                continue
            flow.unclaimed.remove(span.key)
            origin = origin_line(flow.origins.details_of(str(part.get("tool_call_id"))))
            span.attributes["llm_do.reused_from"] = origin or None
            content = scrubbed(part.get("content"), binary=self._binary)
            span.attributes["gen_ai.tool.call.result"] = as_text(content)
            failed = is_failed(part)
            error = as_text(content)[:500] if failed else None
            if failed:
                span.attributes["error.type"] = str(part.get("outcome") or "retry")
            made = nanoseconds(part.get("timestamp"))
            found.append(self._closed(span, at if made is None else min(made, at), error=error))
        return found

    def _caller(self, flow: Flow, given: JsonObject) -> str:
        """The key of the tool call that starts an invocation; where it can't be told, of the invocation around it."""
        worker = str(as_object(given.get("worker")).get("name") or "")
        said = given.get("prompt") or given.get("input")
        files = [file.get("path") for file in cast("list[JsonObject]", given.get("attachments") or [])]
        return flow.unclaimed.take(worker, said, files) or flow.span.key

    def _told(self, flow: Flow, news: DeskNews, key: str, at: int) -> list[ReadableSpan]:
        message = news.message
        if news.kind == "asked":
            name, shape = approval_shape(message.get("tool"))
            shown = {**shape, "llm_do.summary": message.get("summary")}
            flow.questions[str(message.get("key"))] = OpenSpan(key, name, at, flow.span.key, attributes=shown)
            return []
        span = flow.questions.pop(str(message.get("key")), None) if news.kind == "decided" else None
        if span is None:
            return []
        verdict = as_object(message.get("verdict"))
        span.attributes["llm_do.approval.id"] = message.get("id")
        for name in ("decision", "by", "note", "door"):
            span.attributes[f"llm_do.approval.{name}"] = verdict.get(name) or None
        return [self._closed(span, at)]


def make_trace_folder(folder: Path) -> None:
    """Make the folder for traces. Raises UsageError where that cannot be."""
    if folder.is_symlink():
        raise UsageError(f"the folder '{folder}' for traces is a link", next_step="Name the folder it leads to.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise UsageError(f"the folder '{folder}' for traces cannot be made: {error.strerror}") from error
    if not writable:
        raise UsageError(f"the folder '{folder}' for traces cannot be written", next_step="Choose another --trace-dir.")


class TraceFile:
    """A new file in a folder; readable by its owner alone, because it holds what was said. No key is in it."""

    def __init__(self, folder: Path, run: str, now: datetime) -> None:
        """Make the file. Raises UsageError where it cannot be made."""
        stem = f"{_UNUSUAL.sub('_', run)[:_NAME_CHARS].lstrip('.') or 'run'}-{now:%Y%m%dT%H%M%SZ}"
        try:
            # Held, so that it stays the one that was judged.
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"the folder '{folder}' for traces cannot be used: {error.strerror}") from error
        try:
            self.path, self._file = _make_in(held, folder, stem)
        finally:
            os.close(held)

    def write(self, spans: Iterable[ReadableSpan]) -> None:
        """Append the spans, each on a line of its own."""
        for span in spans:
            self._file.write(f"{remove_keys(span.to_json(indent=None))}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; nothing is written after this."""
        self._file.close()


def _make_in(held: int, folder: Path, stem: str) -> tuple[Path, TextIO]:
    for number in range(1, 1_000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        try:
            descriptor = os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=held)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"the trace '{path}' cannot be written: {error.strerror}") from error
        return path, os.fdopen(descriptor, "w", encoding="utf-8")
    raise UsageError(f"the folder '{folder}' is full of traces of this run", next_step="Choose another --trace-dir.")
