"""Whether anybody asks for work at a task queue: what waits where nobody does would wait for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

_RECENT = timedelta(minutes=2)
"""A worker service that is there asks for work at least once a minute."""


async def recent_pollers(client: Client, queue: str, kind: TaskQueueType.ValueType) -> set[str]:
    """The identities of the processes that asked for work of this kind in the last two minutes. Raises RPCError."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
    )
    oldest = datetime.now(UTC) - _RECENT
    return {one.identity for one in answer.pollers if one.last_access_time.ToDatetime(UTC) > oldest}


def unserved(queue: str) -> str:
    """What to say where there are none."""
    return f"nobody has asked for work at the task queue '{queue}' for two minutes"
