"""Heartbeats for every activity, in one place, so that a killed worker service is noticed within seconds."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

BEAT_SECONDS = 1.0


class HeartbeatInterceptor(Interceptor):
    """Beats once a second while an activity with a heartbeat timeout runs, sync or async."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Beating(next)


class _Beating(ActivityInboundInterceptor):
    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """See ActivityInboundInterceptor."""
        super().init(_Repeating(outbound))

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        info = activity.info()
        # The agent's own activities beat by themselves, with details that must not be overwritten.
        if info.heartbeat_timeout is None or info.activity_type.startswith("agent__"):
            return await self.next.execute_activity(input)
        beating = asyncio.create_task(_beat(sync=not inspect.iscoroutinefunction(input.fn)))
        try:
            return await self.next.execute_activity(input)
        finally:
            beating.cancel()


class _Repeating(ActivityOutboundInterceptor):
    """A heartbeat that carries nothing would make the server forget what the one before it carried.

    The first of those that carry nothing is not sent: it comes as the activity begins, which the server knows, and
    each is a write in its database. Most activities end before the second.
    """

    def __init__(self, next: ActivityOutboundInterceptor) -> None:  # noqa: A002
        super().__init__(next)
        self._told: tuple[Any, ...] = ()
        self._has_begun = False

    def heartbeat(self, *details: Any) -> None:
        """See ActivityOutboundInterceptor."""
        begins, self._has_begun = not self._has_begun, True
        if begins and not details:
            return
        self._told = details or self._told
        super().heartbeat(*self._told)


async def _beat(*, sync: bool) -> None:
    while True:
        # The heartbeat of a sync activity waits for the event loop, so it must not be called on it.
        await asyncio.to_thread(activity.heartbeat) if sync else activity.heartbeat()
        await asyncio.sleep(BEAT_SECONDS)
