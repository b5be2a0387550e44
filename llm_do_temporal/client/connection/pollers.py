"""Processes that ask for work at a task queue: a task in a queue without any would wait for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

_RECENT = timedelta(minutes=2)
"""A worker service that is there asks for work at least once a minute."""


async def recent_pollers(client: Client, queue: str, kind: TaskQueueType.ValueType) -> set[str]:
    """Return the identities of the processes that asked for such work in the last two minutes. Raises RPCError."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
    )
    oldest = datetime.now(UTC) - _RECENT
    return {one.identity for one in answer.pollers if one.last_access_time.ToDatetime(UTC) > oldest}


def no_poller_message(queue: str, served: timedelta | None = None) -> str:
    """Return the message for a task queue without pollers; `served` is the time for which the server has been there.

    None: it is not known, and long enough."""
    if served is None or served >= _RECENT:
        return f"nobody has asked for work at the task queue '{queue}' for two minutes"
    begun = f"since the server began, {served.total_seconds():.0f} s ago; .llm-do/service.log may say why"
    return f"nobody has asked for work at the task queue '{queue}' {begun}"
