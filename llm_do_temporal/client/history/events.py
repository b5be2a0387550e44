"""Events of histories, the values in them, and the activities that they tell of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from google.protobuf.message import Message
from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.encryption.codec import ENCODING, is_encrypted
from llm_do_temporal.errors import EffectFailed, KeyMismatch
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.redaction.failures import clean_failure
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, REFERENCE_TYPE, is_kept_outside

SHOWN_CHARS = 200
"""Longest text of an argument in an event for people."""
_SHOWN_PARTS, _SHOWN_LEVELS = 50, 8
_Model = TypeVar("_Model", bound=BaseModel)
_MARKER = "core_local_activity"
_Part = TypeVar("_Part", bound=Message)

NOT_AT_HAND = (EffectFailed, RuntimeError, ValueError, TypeError)
"""Errors of a reference to a value that is not here (RuntimeError: no place to look; ValueError: another place), or
of a broken reference: anybody may send one. The error of a blob store that does not answer is not among them.
"""

ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: "completed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "failed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "cancelled",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "terminated",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "timed out",
}
"""Events with which a workflow closes for good, each with the name of that state."""
_CHILD_ENDS = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: "completed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: "failed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: "cancelled",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: "terminated",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: "timed out",
}
_CANCELLED = Failure(message="cancelled", application_failure_info=ApplicationFailureInfo(type="cancelled"))


def decode_json(payload: Payload) -> Any:
    """A payload's JSON value, or None when it holds something else, is nested too deep, or is kept elsewhere."""
    if is_kept_outside(payload):
        return None
    try:
        return json.loads(payload.data)
    except (ValueError, RecursionError):
        return None


def first_object(payloads: Sequence[Payload]) -> dict[str, Any]:
    """The first payload as an object; an empty one when it is something else, or cannot be read here."""
    return as_object(decode_json(payloads[0]) if payloads else None)


def read_message(kind: type[_Model], value: Any) -> _Model | None:
    """Return the message of this kind; None where the value is none, as one that is kept elsewhere."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


def read_start(payloads: Sequence[Payload]) -> StartRunInput:
    """Return the start of a run, without what an earlier execution has left, from the input of its workflow.

    Of one that is wrong, or cannot be read here, the prompt alone.
    """
    given = first_object(payloads)
    start = read_message(StartRunInput, {name: given[name] for name in given if name != "continued"})
    return start or StartRunInput(worker="", prompt=str(given.get("prompt") or ""))


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON value as an object; an empty one when it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON value as a list; an empty one when it is something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def shortened(value: Any, *, depth: int = 0) -> Any:
    """Return a JSON value with its long texts and lists cut, and with an ellipsis for what lies deep in it."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARS else f"{value[: SHOWN_CHARS - 1]}…"
    if not isinstance(value, dict | list):
        return value
    if depth == _SHOWN_LEVELS:
        return "…"
    if isinstance(value, dict):
        given = list(as_object(value).items())
        return {shortened(name): shortened(one, depth=depth + 1) for name, one in given[:_SHOWN_PARTS]}
    parts = as_list(value)
    return [shortened(one, depth=depth + 1) for one in parts[:_SHOWN_PARTS]] + ["…"] * (len(parts) > _SHOWN_PARTS)


@dataclass(frozen=True)
class LocalEffect:
    """Effect that ran as a local activity. Times are nanoseconds since 1970."""

    activity: str
    summary: str
    started_at: int
    ended_at: int
    failure: Failure | None
    result: tuple[Payload, ...] = ()
    """The effect's result: one value, or none."""


def local_effect(event: HistoryEvent) -> LocalEffect | None:
    """The effect that this event records, if it does."""
    if not event.HasField("marker_recorded_event_attributes"):
        return None
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != _MARKER:
        return None
    details = cast("Mapping[str, Payloads]", marker.details)
    facts = first_object(details["data"].payloads if "data" in details else ())
    name = str(facts.get("activity_type") or "")
    now = event.event_time.ToNanoseconds()
    ended = _moment(facts.get("complete_time"), now)
    return LocalEffect(
        activity=name,
        summary=summary_of(event) or name,
        started_at=min(_moment(facts.get("original_schedule_time"), ended), ended),
        ended_at=ended,
        failure=marker.failure if marker.HasField("failure") else None,
        result=tuple(details["result"].payloads) if "result" in details else (),
    )


def _moment(value: Any, otherwise: int) -> int:
    """Return a protobuf timestamp as JSON in nanoseconds."""
    if not isinstance(value, dict):
        return otherwise
    parts = as_object(value)
    return int(parts.get("seconds") or 0) * 1_000_000_000 + int(parts.get("nanos") or 0)


@dataclass(frozen=True)
class Ending:
    """End of a workflow, from the last event of its own history or from an event of its parent's."""

    status: str
    """Name of the state, as in ENDS."""
    told: dict[str, Any]
    """Result, or the details of the failure, as JSON; empty where there is none, or it cannot be read here."""
    failure: Failure
    """Failure; empty for any other end."""
    is_outside: bool
    """Whether the result is kept outside of the history, and not at hand."""

    @property
    def output(self) -> Any:
        """The output in the result; KEPT_OUTSIDE where that is not at hand, None without a result."""
        return KEPT_OUTSIDE if self.is_outside else self.told.get("output")

    @property
    def usage(self) -> Usage | None:
        """Usage of the workflow and all below it; None where the end does not tell."""
        given = as_object(self.told.get("usage"))
        return Usage.model_validate(given) if given else None


async def read_events(
    handle: WorkflowHandle[Any, Any], *, wait: bool, converter: DataConverter
) -> AsyncIterator[HistoryEvent]:
    """Yield every event once, the first one first; with `wait`, until the workflow has closed. Raises RPCError.

    Big values that are kept outside are in their places where the converter knows where they are kept, and what is
    encrypted is opened. Raises KeyMismatch.

    The server tells of a workflow task that is tried again before that is written down. When something else takes
    its place, as it does after a worker service was killed, the server breaks off; reading then begins anew.
    """
    told: dict[int, tuple[int, int]] = {}
    while True:
        try:
            async for event in handle.fetch_history_events(wait_new_event=wait):
                what = (event.event_type, event.event_time.ToNanoseconds())
                if told.get(event.event_id) != what:
                    told[event.event_id] = what
                    await put_back(event, converter)
                    yield event
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT or "branch token" not in error.message:
                raise
        else:
            return


async def read_first(client: Client, workflow_id: str, run_id: str | None) -> HistoryEvent:
    """Return the event with which this run of a workflow, None: the newest, began. Raises RPCError and KeyMismatch."""
    events = client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events(page_size=1)
    event = await anext(events)
    await put_back(event, client.data_converter)
    return event


async def put_back(message: Message, converter: DataConverter) -> None:
    """Replace what is encrypted, and references to big values, by the values; those not at hand stay references.

    The message is an event, or whatever else the server tells. Its failures are without keys then, whoever recorded
    them. Raises KeyMismatch.
    """
    await _put_back(message, converter)
    if isinstance(message, HistoryEvent):
        attributes = getattr(message, message.WhichOneof("attributes") or "", None)
        failure: Any = getattr(attributes, "failure", None)
        # Reading a field that is not set does not set it; cleaning what was read would.
        is_set = attributes is not None and isinstance(failure, Failure) and attributes.HasField("failure")
        failures = [failure] if is_set else []
    else:
        failures = _all(message, Failure)
    for failure in failures:
        clean_failure(failure)


async def _put_back(message: Message, converter: DataConverter) -> None:
    data = message.SerializeToString()
    if REFERENCE_TYPE not in data and ENCODING not in data:
        return
    passed_over = NOT_AT_HAND
    if isinstance(message, HistoryEvent) and message.HasField("workflow_task_failed_event_attributes"):
        # All that who has a wrong key can write into a history, and nothing of the run.
        passed_over += (KeyMismatch,)
    for payload in _all(message, Payload):
        if is_encrypted(payload) or is_kept_outside(payload):
            with suppress(*passed_over):
                (found,) = await converter.decode([payload], [RawValue])
                payload.CopyFrom(found.payload)
    for failure in _all(message, Failure):
        if failure.HasField("encoded_attributes"):
            failure.message = str(first_object([failure.encoded_attributes]).get("message", failure.message))


def _all(message: Message, kind: type[_Part]) -> Iterator[_Part]:
    """The messages of a kind that are in a message, the outer ones first."""
    if isinstance(message, kind):
        yield message
    if isinstance(message, Payload):
        return
    for field, value in message.ListFields():
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        several = value.values() if is_map else value if field.is_repeated else [value]
        for one in several:
            if isinstance(one, Message):
                yield from _all(one, kind)


async def read_chain(
    client: Client, workflow_id: str, run_id: str | None, *, wait: bool
) -> AsyncIterator[HistoryEvent]:
    """Like `read_events`, over all runs of a workflow that was continued as new; `run_id` is the first, None finds it.

    What the server does not keep any longer is left out.
    """
    run_id = run_id or await _first_run(client, workflow_id)
    while True:
        event = None
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        async for event in read_events(handle, wait=wait, converter=client.data_converter):
            yield event
        if event is None or event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            return
        run_id = event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id


async def _first_run(client: Client, workflow_id: str) -> str | None:
    """The first run of a workflow that was continued as new and is still kept; None where there is only one."""
    run_id = later = None
    while True:
        try:
            begun = (await read_first(client, workflow_id, run_id)).workflow_execution_started_event_attributes
        except RPCError as error:
            if not is_missing(error) or run_id is None:
                raise
            return later
        if not begun.continued_execution_run_id:
            return run_id
        later, run_id = run_id, begun.continued_execution_run_id


def summary_of(event: HistoryEvent) -> str:
    """Return the line for people about the activity that an event begins; empty where it has none."""
    data = event.user_metadata.summary
    return str(decode_json(data) or "") if data.data else ""


def activity_of(event: HistoryEvent) -> int:
    """The event that scheduled the activity which this one is about; 0 for other events."""
    return (
        event.activity_task_started_event_attributes.scheduled_event_id
        or event.activity_task_completed_event_attributes.scheduled_event_id
        or event.activity_task_failed_event_attributes.scheduled_event_id
        or event.activity_task_timed_out_event_attributes.scheduled_event_id
        or event.activity_task_canceled_event_attributes.scheduled_event_id
    )


def failed_activity(event: HistoryEvent) -> tuple[int, Failure] | None:
    """The scheduling event of an activity that ended without a result, and its failure; None for other events."""
    for ended in (event.activity_task_failed_event_attributes, event.activity_task_timed_out_event_attributes):
        if ended.scheduled_event_id:
            return ended.scheduled_event_id, ended.failure
    cancelled = event.activity_task_canceled_event_attributes.scheduled_event_id
    return (cancelled, _CANCELLED) if cancelled else None


class Activities:
    """Finds the activities with these names, or all, that have ended with a result, in the events of one history."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._begun: dict[int, HistoryEvent] = {}

    def take(self, event: HistoryEvent) -> HistoryEvent | None:
        """Return the event that scheduled the activity which the next event completes; None for other events."""
        if event.HasField("workflow_execution_started_event_attributes"):
            self._begun.clear()
        name = event.activity_task_scheduled_event_attributes.activity_type.name
        if name in self._names or (name and not self._names):
            self._begun[event.event_id] = event
        return self._begun.pop(event.activity_task_completed_event_attributes.scheduled_event_id, None)


def ending(event: HistoryEvent) -> Ending | None:
    """Return the end of the history's own workflow, or of a callee, that the event tells; None for other events."""
    status = ENDS.get(event.event_type) or _CHILD_ENDS.get(event.event_type)
    if status is None:
        return None
    failure = event.workflow_execution_failed_event_attributes.failure
    if callee_of(event):
        failure = event.child_workflow_execution_failed_event_attributes.failure.cause
    result = (
        event.workflow_execution_completed_event_attributes.result.payloads
        or event.child_workflow_execution_completed_event_attributes.result.payloads
    )
    told = first_object(result or failure.application_failure_info.details.payloads)
    return Ending(status, told, failure, any(map(is_kept_outside, result)))


def callee_of(event: HistoryEvent) -> str:
    """Return the workflow of the callee that an event is about; empty for an event of the workflow itself."""
    name = event.WhichOneof("attributes") or ""
    is_child = name.startswith("child_workflow_execution_")
    return str(getattr(event, name).workflow_execution.workflow_id) if is_child else ""


def reason_in(failure: Failure) -> str:
    """Return the message of the innermost failure that has one."""
    message = failure.message
    while failure.HasField("cause"):
        failure = failure.cause
        message = failure.message or message
    return message
