"""Work under way that no history tells of: failed attempts, tasks that no service takes, text being written.

A history tells of an attempt of an activity only when it is the last one, and of a heartbeat never, so the server is
asked. It has the heartbeats of the attempt that runs, and forgets them with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import ValidationError
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState, TaskQueueType
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError

from llm_do_temporal.client.connections import no_poller_message, recent_pollers
from llm_do_temporal.client.history.events import put_back
from llm_do_temporal.client.history.questions import DESK_ACTIVITIES
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.base import WAITS_FOR_BATCH
from llm_do_temporal.messages.conversation import LiveText

_TELLING_ATTEMPT = 2
"""Number of the attempt at a workflow task from which on there is trouble to tell."""
_NEWEST_EVENTS = 20
PATIENCE = timedelta(seconds=20)
"""Time within which a worker service that is there takes a waiting task."""
START_PATIENCE = timedelta(seconds=60)
"""Time within which the worker service of an embedded server, which begins with it, asks for work: mostly some seconds,
on a busy machine many."""
MOST_ASKED = 40
"""Invocations asked about at once; those of a larger run wait for the same."""
WAITS: Final = "waits"
"""Part of a LiveText that says what a turn waits for."""


@dataclass(frozen=True)
class Trouble:
    """Reason why work waits: its last attempt failed, or no worker service takes it."""

    attempt: int | None
    """Number of the attempt that runs, or comes next; None where no service takes the task, or its turn waits for a
    provider's batch."""
    failure: str
    """Message of the last attempt's failure, or words for what is missing."""
    next_at: datetime | None = None
    """Time of the next attempt, in UTC; None: it is being tried."""

    def shown(self, now: datetime | None = None) -> str:
        """Return one line for people."""
        if self.attempt is None:
            return self.failure
        left = 0 if self.next_at is None else (self.next_at - (now or datetime.now(UTC))).total_seconds()
        when = f" in {left:.0f} s" if left >= 1 else ""
        return f"attempt {self.attempt}{when}: {self.failure}"


async def note_troubles(
    client: Client, view: RunView, *, served_since: datetime | None = None
) -> list[tuple[str, Trouble]]:
    """Ask the server, note in the nodes of the view what is tried again, and return it with the nodes' paths.

    `served_since` is the time since which an embedded server and its worker service are there; None for any other.
    """
    busy = [node for node in view.ordered if node.status == "running" and node.doing][:MOST_ASKED]
    queues = _Queues(client, served_since)
    found = await asyncio.gather(*(_trouble(client, node, queues) for node in busy))
    troubles: list[tuple[str, Trouble]] = []
    for node, trouble in zip(busy, found, strict=True):
        node.trouble = trouble.shown() if trouble is not None and node.doing else ""
        if trouble is not None:
            troubles.append((node.path, trouble))
    own = await _own_trouble(client, view.run, queues) if view.status == "running" else None
    view.trouble = "" if own is None else own.shown()
    return troubles if own is None else [("run", own), *troubles]


class _Queues:
    """Task queues that tasks wait in; the server is asked about each once."""

    def __init__(self, client: Client, served_since: datetime | None) -> None:
        self._client = client
        self._served_since = served_since
        self._pollers: dict[tuple[str, int], asyncio.Task[set[str]]] = {}

    async def trouble(self, queue: str, kind: TaskQueueType.ValueType, since: Timestamp) -> Trouble | None:
        """Return the trouble where a task has waited since `since` and no service polls the queue. Raises RPCError."""
        now = datetime.now(UTC)
        served = None if self._served_since is None else now - self._served_since
        begins = served is not None and served < START_PATIENCE
        if not queue or begins or now - since.ToDatetime(UTC) < PATIENCE:
            return None
        asked = self._pollers.get((queue, kind))
        if asked is None:
            asked = self._pollers[queue, kind] = asyncio.create_task(recent_pollers(self._client, queue, kind))
        return None if await asked else Trouble(None, no_poller_message(queue, served))


async def _own_trouble(client: Client, workflow_id: str, queues: _Queues) -> Trouble | None:
    """Return the trouble of a run itself: no worker service, or one without a key, or with code that does not fit.

    Activities of its entry invocation, which runs in the same workflow, are that invocation's trouble.
    """
    with suppress(RPCError):
        description = await client.get_workflow_handle(workflow_id).describe()
        pending = description.raw_description.pending_workflow_task
        if pending.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED:
            kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
            missing = await queues.trouble(description.task_queue, kind, pending.scheduled_time)
            if missing is not None:
                return missing
        if pending.attempt < _TELLING_ATTEMPT:
            return await _untaken(_activities(description, of_run=True), queues)
        newest = await client.workflow_service.get_workflow_execution_history_reverse(
            GetWorkflowExecutionHistoryReverseRequest(
                namespace=client.namespace,
                execution=WorkflowExecution(workflow_id=workflow_id, run_id=description.run_id),
                maximum_page_size=_NEWEST_EVENTS,
            )
        )
        for event in newest.history.events:
            if event.HasField("workflow_task_completed_event_attributes"):
                break
            if event.HasField("workflow_task_failed_event_attributes"):
                await put_back(event, client.data_converter)
                return Trouble(pending.attempt, event.workflow_task_failed_event_attributes.failure.message)
    return None


async def _trouble(client: Client, node: Node, queues: _Queues) -> Trouble | None:
    # It may have ended meanwhile, and a server that does not answer is noticed by whoever follows the run.
    with suppress(RPCError):
        description = await client.get_workflow_handle(node.workflow_id).describe()
        activities = _activities(description, of_run=False)
        missing = await _untaken(activities, queues)
        if missing is not None:
            return missing
        for pending in activities:
            if not pending.HasField("last_failure"):
                continue
            failure, at = pending.last_failure, pending.next_attempt_schedule_time
            await put_back(failure, client.data_converter)
            if failure.application_failure_info.type == WAITS_FOR_BATCH:
                # Nothing failed, and the attempts only look whether the batch has ended.
                return Trouble(None, failure.message)
            waits = pending.HasField("next_attempt_schedule_time")
            return Trouble(pending.attempt, failure.message, at.ToDatetime(UTC) if waits else None)
    return None


def _activities(description: WorkflowExecutionDescription, *, of_run: bool) -> list[PendingActivityInfo]:
    pending = description.raw_description.pending_activities
    return [one for one in pending if (one.activity_type.name in DESK_ACTIVITIES) == of_run]


async def _untaken(activities: Iterable[PendingActivityInfo], queues: _Queues) -> Trouble | None:
    for pending in activities:
        if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
            queue, kind = pending.activity_options.task_queue.name, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
            missing = await queues.trouble(queue, kind, pending.scheduled_time)
            if missing is not None:
                return missing
    return None


async def tails(client: Client, view: RunView) -> dict[str, LiveText]:
    """Return the ends of answers being written in the run, by workflow id of the invocation; of 40 of them at most."""
    busy = [node.workflow_id for node in view.ordered if node.status == "running" and node.is_thinking][:MOST_ASKED]
    written = zip(busy, await asyncio.gather(*(read_tail(client, one) for one in busy)), strict=True)
    return {workflow_id: tail for workflow_id, tail in written if tail is not None and tail.part != WAITS}


async def read_tail(client: Client, workflow_id: str) -> LiveText | None:
    """Return the end of an answer that is being written; None where there is none, or the server does not say."""
    with suppress(RPCError):
        description = await client.get_workflow_handle(workflow_id).describe()
        return await tail_in(client, description.raw_description)
    return None


async def tail_in(client: Client, description: DescribeWorkflowExecutionResponse) -> LiveText | None:
    """Return the tail in the server's description of an invocation; None where there is none."""
    turns = (one for one in description.pending_activities if one.activity_type.name == REQUEST_MODEL.name)
    pending = next(turns, None)
    if pending is None:
        return None
    if pending.last_failure.application_failure_info.type == WAITS_FOR_BATCH:
        await put_back(pending.last_failure, client.data_converter)
        message = pending.last_failure.message
        return LiveText(text=message, chars=len(message), part=WAITS, attempt=pending.attempt)
    payloads = pending.heartbeat_details.payloads
    if not payloads:
        return None
    try:
        (told,) = await client.data_converter.decode(payloads[:1], [LiveText])
    except (ValidationError, ValueError, RuntimeError, KeyMismatch):
        return None
    return told if told.attempt == pending.attempt else None
