"""The spans of a run, derived from the histories of its workflows as they are read.

Owns which event begins and ends which span: the run, its invocations, their model turns, tool calls,
effects and approvals. It needs no worker service and changes nothing about a run. An event that was
taken in before is passed over, so a history may be read again after a lost connection.
"""

from __future__ import annotations

import base64
from typing import Any, cast

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanKind
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.beginnings import Beginnings
from llm_do_temporal.client.history.desk_news import DeskNews, news_at_invocation
from llm_do_temporal.client.history.events import activity_of
from llm_do_temporal.client.history.local_activities import LocalEffect, local_effect
from llm_do_temporal.client.history.origins import origin_line, origin_of_turn
from llm_do_temporal.client.history.payloads import decode_json, first_object
from llm_do_temporal.client.traces.flow import (
    Flow,
    activity_failure,
    asked_model,
    first_model,
    is_effect_of_run,
    nanoseconds,
    reason_of,
)
from llm_do_temporal.client.traces.spans import OpenSpan, Trace
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed, KeyMismatch
from llm_do_temporal.messages.activities import RECORD_AT_DESK, REQUEST_MODEL
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.telemetry.contents import (
    JsonObject,
    answer_attributes,
    arguments_of,
    as_text,
    input_messages,
    new_messages,
    output_message,
    parts_of,
    request_messages,
    scrubbed,
)
from llm_do_temporal.telemetry.shapes import approval_shape, invocation_shape, run_shape, tool_shape, turn_shape

_ENDINGS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: None,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "failed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "cancelled",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "terminated",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "timed out",
}
_FINAL = "final_result"
"""Name of the tool call that carries structured output; it calls nothing."""


class Tracer:
    """Turns the events of one run into spans."""

    def __init__(self, run: str, *, blobs: BlobStore | None = None, binary: bool = False) -> None:
        """Make a tracer. With `binary`, spans hold the bytes of files; those of attachments are read from `blobs`."""
        self._run = run
        self._trace = Trace(run)
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
        """The spans that this event ends, in an order in which parents come after their children."""
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
                found.append(self._trace.ended(span, None))
        return found

    # --- workflows ---

    def _begin(self, workflow_id: str, event: HistoryEvent, at: int) -> None:
        """Begin the flow that this event begins, if it does; one that has begun may have another execution now."""
        begun = self._beginnings.setdefault(workflow_id, Beginnings()).take(event)
        started = event.workflow_execution_started_event_attributes
        if workflow_id == self._run and self._run_flow is None and started.original_execution_run_id:
            self._run_flow = Flow(workflow_id, self._run_span(first_object(list(started.input.payloads)), at))
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
        if event.event_type in _ENDINGS:
            return [run] if flow is None else [flow, run]
        is_own = is_effect_of_run(event) or activity_of(event) in run.effects
        return [run] if is_own or flow is None else [flow]

    def _begun(self, workflow_id: str, given: JsonObject, at: int) -> Flow:
        worker = cast("JsonObject", given.get("worker") or {})
        model = first_model(given)
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

    def _run_span(self, given: JsonObject, at: int) -> OpenSpan:
        name, attributes = run_shape(self._run, str(given.get("worker") or ""))
        attributes |= {
            "llm_do.worker": given.get("worker"),
            "llm_do.prompt": given.get("prompt") or None,
            "llm_do.mode": given.get("mode"),
            "llm_do.started_by": given.get("started_by") or None,
        }
        return OpenSpan(f"{self._run}:run", name, at, attributes=attributes)

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
            self._callers[child.workflow_id] = self._caller(flow, first_object(list(child.input.payloads)))
            return []
        news = news_at_invocation(event, is_entry=flow.workflow_id == self._run)
        if news is not None:
            return self._told(flow, news, f"{flow.workflow_id}:{flow.execution}:{event.event_id}", at)
        if kind in _ENDINGS:
            return self._ended(flow, event, at)
        return self._failed(flow, event, at)

    def _ended(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        error, span = _ENDINGS[event.event_type], flow.span
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            code, error = reason_of(event.workflow_execution_failed_event_attributes.failure)
            span.attributes["error.type"] = code
        elif error is not None:
            span.attributes["error.type"] = error
        if error is None:
            result = first_object(list(event.workflow_execution_completed_event_attributes.result.payloads))
            span.attributes["llm_do.output"] = as_text(result.get("output"))
            usage = cast("JsonObject", result.get("usage") or {})
            for name in ("input_tokens", "output_tokens"):
                span.attributes[f"gen_ai.usage.{name}"] = usage.get(name)
        inner = [self._trace.ended(one, at, error=error) for one in flow.open_spans if one is not span]
        for opened in (flow.turns, flow.effects, flow.calls, flow.questions):
            opened.clear()
        flow.answered = True
        return [*inner, self._trace.ended(span, at, error=error)]

    # --- turns and effects ---

    def _scheduled(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        attributes = event.activity_task_scheduled_event_attributes
        name = attributes.activity_type.name
        key = f"{flow.workflow_id}:{flow.execution}:{event.event_id}"
        if name != REQUEST_MODEL.name:
            said = event.user_metadata.summary
            summary = str(decode_json(said) or "") if said.data else None
            shown = {"llm_do.activity": name, "llm_do.summary": summary}
            flow.effects[event.event_id] = OpenSpan(key, name, at, flow.span.key, attributes=shown)
            return []
        request = first_object(list(attributes.input.payloads))
        messages = new_messages(request_messages(request))
        settings = cast("JsonObject", request.get("model_settings") or {})
        name, shape = turn_shape(flow.workflow_id, asked_model(request) or flow.model)
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
            return [self._trace.ended(span, effect.ended_at)]
        span.attributes["error.type"], message = reason_of(effect.failure)
        return [self._trace.ended(span, effect.ended_at, error=message)]

    def _completed(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        attributes = event.activity_task_completed_event_attributes
        effect = flow.effects.pop(attributes.scheduled_event_id, None)
        if effect is not None:
            return [self._trace.ended(effect, at)]
        turn = flow.turns.pop(attributes.scheduled_event_id, None)
        if turn is None:
            return []
        response = first_object(list(attributes.result.payloads))
        said = as_text([output_message(response, binary=self._binary)])
        origin = origin_of_turn(response)
        turn.attributes |= {**answer_attributes(response), "gen_ai.output.messages": said}
        turn.attributes["llm_do.reused_from"] = None if origin is None else origin.place
        flow.origins.answered(response)
        for part in parts_of(response):
            if part.get("part_kind") == "tool-call" and not str(part.get("tool_name")).startswith(_FINAL):
                self._call(flow, turn, part, at)
        return [self._trace.ended(turn, at)]

    def _failed(self, flow: Flow, event: HistoryEvent, at: int) -> list[ReadableSpan]:
        """The end of an activity without a result, where this event is one."""
        failure = activity_failure(event)
        if failure is None:
            return []
        scheduled, code, message = failure
        span = flow.turns.pop(scheduled, None) or flow.effects.pop(scheduled, None)
        if span is None:
            return []
        span.attributes["error.type"] = code
        return [self._trace.ended(span, at, error=message)]

    # --- tool calls ---

    def _call(self, flow: Flow, turn: OpenSpan, part: JsonObject, at: int) -> None:
        """A tool call begins when its turn has been answered."""
        call_id = str(part.get("tool_call_id"))
        name, shape = tool_shape(str(part.get("tool_name")), call_id)
        arguments = arguments_of(part)
        key = f"{turn.key}:{call_id}"
        if (before := flow.calls.get(call_id)) is not None:  # an id that a model gave twice
            flow.unclaimed.remove(before.key)
        flow.unclaimed.add(key, str(part.get("tool_name")), arguments)
        flow.calls[call_id] = OpenSpan(
            key,
            name,
            at,
            flow.span.key,
            attributes={
                **shape,
                "gen_ai.tool.call.arguments": as_text(scrubbed(arguments, binary=self._binary)),
            },
        )

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
            failed = part.get("part_kind") == "retry-prompt" or part.get("outcome", "success") != "success"
            error = as_text(content)[:500] if failed else None
            if failed:
                span.attributes["error.type"] = str(part.get("outcome") or "retry")
            made = nanoseconds(part.get("timestamp"))
            found.append(self._trace.ended(span, at if made is None else min(made, at), error=error))
        return found

    def _caller(self, flow: Flow, given: JsonObject) -> str:
        """The key of the tool call that starts an invocation; where it can't be told, of the invocation around it."""
        worker = str(cast("JsonObject", given.get("worker") or {}).get("name") or "")
        said = given.get("prompt") or given.get("input")
        files = [file.get("path") for file in cast("list[JsonObject]", given.get("attachments") or [])]
        return flow.unclaimed.take(worker, said, files) or flow.span.key

    # --- approvals ---

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
        verdict = cast("JsonObject", message.get("verdict") or {})
        span.attributes["llm_do.approval.id"] = message.get("id")
        for name in ("decision", "by", "note", "door"):
            span.attributes[f"llm_do.approval.{name}"] = verdict.get(name) or None
        return [self._trace.ended(span, at)]
