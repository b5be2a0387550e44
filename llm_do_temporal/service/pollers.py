"""The Temporal workers of one process, one for each task queue that it polls: started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from temporalio.worker import Worker

from llm_do_temporal.policy.queues import Polled


class Workers:
    """Polls while its block runs, or until `run` is cancelled."""

    def __init__(self, polled: Sequence[Polled], workers: Sequence[Worker]) -> None:
        self.polled = tuple(polled)
        """The task queues."""
        self.workers = tuple(workers)
        self._running = AsyncExitStack()

    async def run(self) -> None:
        """Poll for ever. Raises what stops one of them for good."""
        async with self:
            await asyncio.Event().wait()

    async def __aenter__(self) -> Workers:
        """Begin. An error that stops one of them for good cancels the block, and is raised where it ends."""
        for worker in self.workers:
            await self._running.enter_async_context(worker)
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Finish the work under way, at all queues at once."""
        try:
            await asyncio.gather(*(worker.shutdown() for worker in self.workers))
        finally:
            await self._running.__aexit__(*error)
