"""What a run waits for although nobody is asked: activities, or its own tasks, that have failed and are tried again.

A history tells of an attempt of an activity only when it is the last one, so the server is asked.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.histories import put_back
from llm_do_temporal.client.view import Node, RunView

_TELLING_ATTEMPT = 2
"""Which attempt at a task shows that there is something to tell."""
_NEWEST_EVENTS = 20
MOST_ASKED = 40
"""Invocations asked about at once; those of a larger run wait for the same."""


@dataclass(frozen=True)
class Trouble:
    """Something that failed and is tried again."""

    attempt: int
    """The one that runs, or that comes next."""
    failure: str
    """What the last attempt failed with."""
    next_at: datetime | None
    """When it is tried again, in UTC; None: it is being tried."""

    def shown(self, now: datetime | None = None) -> str:
        """One line for people."""
        left = 0 if self.next_at is None else (self.next_at - (now or datetime.now(UTC))).total_seconds()
        when = f" in {left:.0f} s" if left >= 1 else ""
        return f"attempt {self.attempt}{when}: {self.failure}"


async def note_troubles(client: Client, view: RunView) -> list[tuple[str, Trouble]]:
    """Ask the server, note in the nodes of the view what is tried again, and return it with the nodes' paths."""
    busy = [node for node in view.ordered if node.status == "running" and node.doing][:MOST_ASKED]
    found = await asyncio.gather(*(_trouble(client, node) for node in busy))
    troubles: list[tuple[str, Trouble]] = []
    for node, trouble in zip(busy, found, strict=True):
        node.trouble = trouble.shown() if trouble is not None and node.doing else ""
        if trouble is not None:
            troubles.append((node.path, trouble))
    own = await _task_trouble(client, view.run) if view.status == "running" else None
    view.trouble = "" if own is None else own.shown()
    return troubles if own is None else [("run", own), *troubles]


async def _task_trouble(client: Client, workflow_id: str) -> Trouble | None:
    """What keeps a worker service from going on with a workflow: a missing key, or code that does not fit."""
    with suppress(RPCError):
        description = await client.get_workflow_handle(workflow_id).describe()
        attempt = description.raw_description.pending_workflow_task.attempt
        if attempt < _TELLING_ATTEMPT:
            return None
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
                return Trouble(attempt, event.workflow_task_failed_event_attributes.failure.message, None)
    return None


async def _trouble(client: Client, node: Node) -> Trouble | None:
    # It may have ended meanwhile, and a server that does not answer is noticed by whoever follows the run.
    with suppress(RPCError):
        description = await client.get_workflow_handle(node.workflow_id).describe()
        for pending in description.raw_description.pending_activities:
            if pending.HasField("last_failure"):
                await put_back(pending.last_failure, client.data_converter)
                return _read(pending)
    return None


def _read(pending: PendingActivityInfo) -> Trouble:
    at = pending.next_attempt_schedule_time
    waits = pending.HasField("next_attempt_schedule_time")
    return Trouble(pending.attempt, pending.last_failure.message, at.ToDatetime(UTC) if waits else None)
