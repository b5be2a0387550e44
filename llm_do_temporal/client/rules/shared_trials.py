"""Past calls for a page, and trials of them: made when somebody asks, and not again for every visitor.

Runs that have ended are read once. What was read is good for a minute, and so are the trials; one visitor at a time is
served, and others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from temporalio.client import Client

from llm_do_temporal.client.rules.past_calls import PastCallReader, PastCalls

T = TypeVar("T")
MOST_RUNS = 500
"""Most runs that a visit reads: some seconds the first time. `rules test` reads more."""
_MOST_TRIALS = 16
"""Most trials that are kept."""
_GOOD_FOR = timedelta(minutes=1)


class SharedPastCalls:
    """Past calls of the last days, shared among all visitors."""

    def __init__(self, client: Client) -> None:
        self._reader = PastCallReader(client)
        self._turn = asyncio.Lock()
        self._days = 0
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._past = PastCalls(calls=(), runs=0)
        self._trials: dict[str, Any] = {}
        """Trials of these calls, by their key."""

    async def tried(self, days: int, key: str, trial: Callable[[PastCalls], T]) -> T:
        """Return the trial, in a thread of its own, of what was asked in the last days.

        `key` names all that the trial depends on besides. Calls are as they were at most a minute ago. Raises
        ConnectionFailed.
        """
        async with self._turn:
            now = datetime.now(UTC)
            if days != self._days or now - self._read_at > _GOOD_FOR:
                # The reader remembers the runs of one reading; several lengths of time at once would cost more.
                self._past = await self._reader.read(now - timedelta(days=days), limit=MOST_RUNS)
                self._days, self._read_at, self._trials = days, now, {}
            if key not in self._trials:
                if len(self._trials) == _MOST_TRIALS:
                    self._trials = {}
                self._trials[key] = await asyncio.to_thread(trial, self._past)
            return cast("T", self._trials[key])
