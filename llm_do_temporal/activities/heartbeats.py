"""Heartbeats for every activity, in one place, so that a killed worker service is noticed within seconds."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

BEAT_SECONDS = 1.0


class HeartbeatInterceptor(Interceptor):
    """Beats once a second while an activity with a heartbeat timeout runs, sync or async."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Beating(next)


class _Beating(ActivityInboundInterceptor):
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


async def _beat(*, sync: bool) -> None:
    while True:
        # The heartbeat of a sync activity waits for the event loop, so it must not be called on it.
        await asyncio.to_thread(activity.heartbeat) if sync else activity.heartbeat()
        await asyncio.sleep(BEAT_SECONDS)
