"""Heartbeats for every activity, in one place, so that a killed worker service is noticed within seconds.

They go on while a large result waits for the blob store: otherwise the server would have the activity done again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from llm_do_temporal.callers import TimeLimit, limited_to
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.messages.base import NOT_BEGUN, TIME_IS_UP
from llm_do_temporal.messages.conversation import BatchedTurn
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES
from llm_do_temporal.storage.external_storage import keep_ahead

BEAT_SECONDS = 1.0
_BEATS = ThreadPoolExecutor(4, thread_name_prefix="heartbeat")
"""Threads of their own: a blob store that is down may keep all others waiting for minutes."""
_LONGEST_WAIT = 10.0
"""Seconds between two tries to keep a large result."""
LATE = timedelta(seconds=1)
"""Delay from which an activity began late: a process that is not busy begins within milliseconds."""


class Promptness:
    """Tells whether an activity comes late, by two clocks that may differ: the server's and this machine's.

    The smallest difference that was seen so far stands for an activity that came at once. Before there is any, and
    where this machine's clock is ahead by more than LATE, every activity counts as late.
    """

    def __init__(self) -> None:
        self._smallest: timedelta | None = None

    def is_late(self, started: datetime) -> bool:
        """Return whether an activity that the server gave away at this time comes late."""
        passed = datetime.now(UTC) - started
        known, self._smallest = self._smallest, passed if self._smallest is None else min(passed, self._smallest)
        return known is None or passed - min(timedelta(0), self._smallest) > LATE


class HeartbeatInterceptor(Interceptor):
    """Beats once a second while an activity with a heartbeat timeout runs, sync or async.

    An activity that begins late tells the server first. It does not begin where the server has given it up or cancelled
    it meanwhile, or does not answer.
    """

    def __init__(self, client: Client) -> None:
        """`client` is the worker's."""
        self._client = client
        self._promptness = Promptness()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Beating(next, self._client, self._promptness)


class _Beating(ActivityInboundInterceptor):
    """Keeps a large result while the activity can still beat, and returns the reference to it."""

    def __init__(self, next: ActivityInboundInterceptor, client: Client, promptness: Promptness) -> None:  # noqa: A002
        super().__init__(next)
        self._client = client
        self._promptness = promptness

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """See ActivityInboundInterceptor."""
        self._outbound = _Repeating(outbound, _kept(outbound.info()))
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        info = activity.info()
        if info.heartbeat_timeout is None:
            return await self.next.execute_activity(input)
        result = await self._execute(input, info)
        payload = activity.payload_converter().to_payloads([result])[0]
        if payload.ByteSize() < KEPT_FROM_BYTES:
            return result
        self._outbound.has_begun = True
        with _beating(input):
            reference = await self._keep(payload)
        return result if reference is None else reference

    async def _execute(self, input: ExecuteActivityInput, info: activity.Info) -> Any:  # noqa: A002
        if self._promptness.is_late(info.started_time):
            await self._check_wanted(info)
        # The agent's own activities beat by themselves, with details that must not be overwritten.
        if info.activity_type.startswith("agent__"):
            return await self.next.execute_activity(input)
        return await self._execute_limited(input, info)

    async def _execute_limited(self, input: ExecuteActivityInput, info: activity.Info) -> Any:  # noqa: A002
        """Carry the activity out, and fail the attempt when its own time is up: its thread cannot be stopped."""
        seconds = getattr(input.args[0], "limit_seconds", None) if input.args else None
        with limited_to(seconds) as limit, _beating(input):
            watch = asyncio.create_task(self._fail_when_over(limit, info)) if seconds is not None else None
            try:
                return await self.next.execute_activity(input)
            finally:
                if watch is not None:
                    watch.cancel()

    async def _fail_when_over(self, limit: TimeLimit, info: activity.Info) -> None:
        while not limit.is_over:  # noqa: ASYNC110 - time sets no event
            await asyncio.sleep(BEAT_SECONDS)
        attempt = self._client.get_async_activity_handle(task_token=info.task_token)
        # From here on the server refuses heartbeats, so the SDK cancels what still runs.
        with suppress(RPCError):
            await attempt.fail(ApplicationError("the time was up", type=TIME_IS_UP))

    async def _check_wanted(self, info: activity.Info) -> None:
        """Raise ApplicationError unless the server still wants this attempt: else to begin could be to do it twice."""
        attempt = self._client.get_async_activity_handle(task_token=info.task_token)
        try:
            await attempt.heartbeat(*_kept(info), rpc_timeout=info.heartbeat_timeout)
        except (AsyncActivityCancelledError, RPCError) as error:
            raise ApplicationError(
                "the worker service could not begin in time", type=NOT_BEGUN, category=ApplicationErrorCategory.BENIGN
            ) from error

    async def _keep(self, payload: Payload) -> RawValue | None:
        wait = BEAT_SECONDS
        while True:
            try:
                return await keep_ahead(self._client.data_converter, payload)
            except BlobsUnreachable:
                await asyncio.sleep(wait)  # a store that refuses access says so at once
                wait = min(2 * wait, _LONGEST_WAIT)


def _kept(info: activity.Info) -> tuple[Any, ...]:
    """Return what earlier attempts have told for this one, which must not be forgotten before it is read."""
    try:
        return tuple(BatchedTurn.model_validate(told) for told in info.heartbeat_details)
    except ValidationError:
        return ()


@contextmanager
def _beating(call: ExecuteActivityInput) -> Generator[None]:
    beats = asyncio.create_task(_beat(sync=not inspect.iscoroutinefunction(call.fn)))
    try:
        yield
    finally:
        beats.cancel()


class _Repeating(ActivityOutboundInterceptor):
    """Repeats the details of the last heartbeat: one without any would make the server forget them.

    The first of those that carry nothing is not sent: it comes as the activity begins, which the server knows, and
    each is a write in its database. Most activities end before the second.
    """

    def __init__(self, next: ActivityOutboundInterceptor, details: Sequence[Any] = ()) -> None:  # noqa: A002
        super().__init__(next)
        self.has_begun = False
        """Whether the activity has begun long since, so that even the first heartbeat is news."""
        self._details = tuple(details)

    def heartbeat(self, *details: Any) -> None:
        """See ActivityOutboundInterceptor."""
        begins, self.has_begun = not self.has_begun, True
        if begins and not details:
            return
        self._details = details or self._details
        super().heartbeat(*self._details)


async def _beat(*, sync: bool) -> None:
    while True:
        if sync:
            # It waits for the event loop, so it must not be called on it.
            await asyncio.get_running_loop().run_in_executor(_BEATS, copy_context().run, activity.heartbeat)
        else:
            activity.heartbeat()
        await asyncio.sleep(BEAT_SECONDS)
