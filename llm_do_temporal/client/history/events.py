"""Reading the history of one workflow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connection.errors import is_missing
from llm_do_temporal.client.history.payloads import first_object
from llm_do_temporal.encryption.codec import ENCODING, is_encrypted
from llm_do_temporal.errors import EffectFailed, KeyMismatch
from llm_do_temporal.redaction.failures import clean_failure
from llm_do_temporal.storage.external_storage import REFERENCE_TYPE, is_kept_outside

M = TypeVar("M", bound=Message)

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
            if not _is_superseded(error):
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
        failure = getattr(attributes, "failure", None)
        # Reading a field that is not set does not set it; cleaning what was read would.
        failures = (
            [failure]
            if attributes is not None and isinstance(failure, Failure) and attributes.HasField("failure")
            else []
        )
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


def _all(message: Message, kind: type[M]) -> Iterator[M]:
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


def activity_of(event: HistoryEvent) -> int:
    """The event that scheduled the activity which this one is about; 0 for other events."""
    return (
        event.activity_task_started_event_attributes.scheduled_event_id
        or event.activity_task_completed_event_attributes.scheduled_event_id
        or event.activity_task_failed_event_attributes.scheduled_event_id
        or event.activity_task_timed_out_event_attributes.scheduled_event_id
        or event.activity_task_canceled_event_attributes.scheduled_event_id
    )


def failed_activity(event: HistoryEvent) -> tuple[int, str] | None:
    """The scheduling event of an activity that ended without a result, and the reason; None for other events."""
    if event.HasField("activity_task_failed_event_attributes"):
        failed = event.activity_task_failed_event_attributes
        return failed.scheduled_event_id, reason_in(failed.failure)
    if event.HasField("activity_task_timed_out_event_attributes"):
        timed_out = event.activity_task_timed_out_event_attributes
        return timed_out.scheduled_event_id, reason_in(timed_out.failure)
    if event.HasField("activity_task_canceled_event_attributes"):
        return event.activity_task_canceled_event_attributes.scheduled_event_id, "cancelled"
    return None


def reason_in(failure: Failure) -> str:
    """Return the message of the innermost failure that has one."""
    message = failure.message
    while failure.HasField("cause"):
        failure = failure.cause
        message = failure.message or message
    return message


def _is_superseded(error: RPCError) -> bool:
    """Whether the part of the history that was read last is no longer part of it."""
    return error.status is RPCStatusCode.INVALID_ARGUMENT and "branch token" in error.message
