"""Activities that a busy worker service begins late, some after the server has given them to somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from llm_do_temporal.activities.runtime.heartbeats import LATE, HeartbeatInterceptor

Wait = Callable[[WorkflowHandle[Any, Any], int], Awaitable[None]]
"""What an attempt does before it may begin, given its workflow and its number."""
POLL_SECONDS = 0.05


@workflow.defn(sandboxed=False)
class OneEffect:
    """Runs one activity until it is done."""

    @workflow.run
    async def run(self) -> None:
        """Runs it."""
        await workflow.execute_activity(
            "effect",
            start_to_close_timeout=timedelta(minutes=1),
            heartbeat_timeout=3 * LATE,
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
        )


class Busy(Interceptor):
    """Lets each attempt wait, as a process does that has no time for it."""

    def __init__(self, wait: Callable[[int], Awaitable[None]]) -> None:
        self.wait = wait

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Waiting(next, self.wait)


class _Waiting(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, wait: Callable[[int], Awaitable[None]]) -> None:  # noqa: A002
        super().__init__(next)
        self.wait = wait

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        await self.wait(activity.info().attempt)
        return await self.next.execute_activity(input)


async def begun(client: Client, wait: Wait) -> list[tuple[int, bool]]:
    """The attempts that really began, and whether the server had a heartbeat of each by then."""
    found: list[tuple[int, bool]] = []
    name = f"late-{uuid4().hex}"
    run = client.get_workflow_handle(name)

    @activity.defn(name="effect")
    async def effect() -> None:
        found.append((activity.info().attempt, (await pending(run)).HasField("last_heartbeat_time")))

    interceptors = [Busy(lambda attempt: wait(run, attempt)), HeartbeatInterceptor(client)]
    worker = Worker(client, task_queue=name, workflows=[OneEffect], activities=[effect], interceptors=interceptors)
    async with worker:
        await client.start_workflow(OneEffect.run, id=name, task_queue=name)
        await run.result()
    return found


async def pending(run: WorkflowHandle[Any, Any]) -> PendingActivityInfo:
    """What the server knows of the one activity."""
    (found,) = (await run.describe()).raw_description.pending_activities
    return found


async def test_what_the_server_has_given_up_is_not_begun(server: WorkflowEnvironment) -> None:
    """The first attempt gets its turn when the second one is under way."""

    async def wait(run: WorkflowHandle[Any, Any], attempt: int) -> None:
        while attempt == 1 and (await pending(run)).attempt == 1:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(POLL_SECONDS)

    assert 1 not in [attempt for attempt, _ in await begun(server.client, wait)]


async def test_what_begins_late_tells_the_server_first(server: WorkflowEnvironment) -> None:
    """Its time for the next heartbeat is counted from there."""

    async def wait(run: WorkflowHandle[Any, Any], attempt: int) -> None:
        started = (await pending(run)).last_started_time.ToDatetime(UTC)
        late = started + LATE - datetime.now(UTC)
        await asyncio.sleep(late.total_seconds() + POLL_SECONDS)

    found = await begun(server.client, wait)
    assert found
    assert all(has_told for _, has_told in found)
