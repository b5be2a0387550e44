"""Activities that a busy worker service begins late, some after the server has given them to somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import AsyncActivityHandle, Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from llm_do_temporal.activities.runtime import interceptors as heartbeats
from llm_do_temporal.activities.runtime.interceptors import LATE, HeartbeatInterceptor

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
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
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
        with suppress(WorkflowFailureError):
            await run.result()
    return found


async def pending(run: WorkflowHandle[Any, Any]) -> PendingActivityInfo:
    """What the server knows of the one activity."""
    (found,) = (await run.describe()).raw_description.pending_activities
    return found


async def late(run: WorkflowHandle[Any, Any]) -> None:
    """Wait until it is late for the attempt that is under way."""
    started = (await pending(run)).last_started_time.ToDatetime(UTC)
    left = started + LATE - datetime.now(UTC)
    await asyncio.sleep(left.total_seconds() + POLL_SECONDS)


async def test_what_was_cancelled_before_it_begins_is_not_begun(server: WorkflowEnvironment) -> None:
    """The attempt is late, and asks once the server knows of the cancellation."""

    async def wait(run: WorkflowHandle[Any, Any], _: int) -> None:
        await late(run)
        await run.cancel()
        while (await pending(run)).state != PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)

    assert await begun(server.client, wait) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hours", [0, -1, 1], ids=["right", "behind", "ahead"])
async def test_what_the_server_has_given_up_is_not_begun(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """The first attempt gets its turn when the second one is under way, whatever the machine's clock says."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr(heartbeats, "datetime", Clock)

    async def wait(run: WorkflowHandle[Any, Any], attempt: int) -> None:
        while attempt == 1 and (await pending(run)).attempt == 1:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(POLL_SECONDS)

    assert 1 not in [attempt for attempt, _ in await begun(server.client, wait)]


async def test_what_begins_late_and_cannot_ask_the_server_is_not_begun(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt comes late and hears nothing; the server has it done again."""
    asked: list[str] = []
    tell = AsyncActivityHandle.heartbeat

    async def heartbeat(self: AsyncActivityHandle, **options: Any) -> None:
        asked.append("heartbeat")
        if len(asked) == 1:
            raise RPCError("silence", RPCStatusCode.UNAVAILABLE, b"")
        await tell(self, **options)

    monkeypatch.setattr(AsyncActivityHandle, "heartbeat", heartbeat)

    async def wait(run: WorkflowHandle[Any, Any], attempt: int) -> None:
        if attempt == 1:
            await late(run)

    found = [attempt for attempt, _ in await begun(server.client, wait)]
    assert asked
    assert found
    assert 1 not in found


async def test_what_begins_late_tells_the_server_first(server: WorkflowEnvironment) -> None:
    """Its time for the next heartbeat is counted from there."""

    found = await begun(server.client, lambda run, _: late(run))
    assert found
    assert all(has_told for _, has_told in found)
