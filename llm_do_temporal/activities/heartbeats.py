"""Heartbeats for every activity, in one place, so that a killed worker service is noticed within seconds.

Also while a large result waits for the store that it has to go to: what was done is not done again for it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from llm_do_temporal.big_payloads import KEPT_FROM_BYTES
from llm_do_temporal.errors import BlobsUnreachable

BEAT_SECONDS = 1.0
_BEATS = ThreadPoolExecutor(4, thread_name_prefix="heartbeat")
"""A blob store that is down may keep all other threads waiting for minutes."""
LATE = timedelta(seconds=1)
"""A process that is not busy begins what it was given within milliseconds."""


class HeartbeatInterceptor(Interceptor):
    """Beats once a second while an activity with a heartbeat timeout runs, sync or async.

    One that begins late tells the server first, and does not begin if the server has given it up meanwhile.
    """

    def __init__(self, client: Client, check_blobs: Callable[[], None] | None = None) -> None:
        """`client` is the worker's.

        `check_blobs` raises BlobsUnreachable where blobs are kept elsewhere and that does not answer.
        """
        self._client = client
        self._check_blobs = check_blobs

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        if self._check_blobs is None:
            return _Beating(next, self._client)
        return _Storing(next, self._client, self._check_blobs)


class _Beating(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, client: Client) -> None:  # noqa: A002
        super().__init__(next)
        self._client = client

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """See ActivityInboundInterceptor."""
        self._outbound = _Repeating(outbound)
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        info = activity.info()
        if info.heartbeat_timeout is None:
            return await self.next.execute_activity(input)
        if datetime.now(UTC) - info.started_time > LATE:
            await self._check_wanted(info)
        # The agent's own activities beat by themselves, with details that must not be overwritten.
        if info.activity_type.startswith("agent__"):
            return await self.next.execute_activity(input)
        with _beating(input):
            return await self.next.execute_activity(input)

    async def _check_wanted(self, info: activity.Info) -> None:
        """Raise ApplicationError where the server has given this attempt up: to begin now would be to do it twice."""
        attempt = self._client.get_async_activity_handle(task_token=info.task_token)
        try:
            await attempt.heartbeat(rpc_timeout=info.heartbeat_timeout)
        except AsyncActivityCancelledError:
            return  # the SDK hears of it with the next heartbeat, and does what is to be done
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise ApplicationError(
                    "the worker service was too busy to begin in time", category=ApplicationErrorCategory.BENIGN
                ) from error


class _Storing(_Beating):
    def __init__(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002
        client: Client,
        check_blobs: Callable[[], None],
    ) -> None:
        super().__init__(next, client)
        self._check_blobs = check_blobs

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        result = await super().execute_activity(input)
        if activity.info().heartbeat_timeout is not None and _is_large(result):
            self._outbound.has_begun = True
            with _beating(input):
                while not await asyncio.to_thread(self._blobs_answer):
                    pass
        return result

    def _blobs_answer(self) -> bool:
        try:
            self._check_blobs()
        except BlobsUnreachable:
            time.sleep(BEAT_SECONDS)  # a store that refuses access says so at once
            return False
        return True


def _is_large(result: Any) -> bool:
    return activity.payload_converter().to_payloads([result])[0].ByteSize() >= KEPT_FROM_BYTES


@contextmanager
def _beating(call: ExecuteActivityInput) -> Generator[None]:
    beats = asyncio.create_task(_beat(sync=not inspect.iscoroutinefunction(call.fn)))
    try:
        yield
    finally:
        beats.cancel()


class _Repeating(ActivityOutboundInterceptor):
    """A heartbeat that carries nothing would make the server forget what the one before it carried.

    The first of those that carry nothing is not sent: it comes as the activity begins, which the server knows, and
    each is a write in its database. Most activities end before the second.
    """

    def __init__(self, next: ActivityOutboundInterceptor) -> None:  # noqa: A002
        super().__init__(next)
        self.has_begun = False
        """Whether the activity has begun long since, so that even the first heartbeat is news."""
        self._details: tuple[Any, ...] = ()

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
