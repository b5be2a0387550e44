"""The oldest of very many runs that wait for people: the server lists the newest first, but counts quickly.

So the time is searched up to which some hundred of them began, by counting; a list up to that time is short then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeAlias

MOST_RUNS = 300
"""Most runs in such a list: more questions than people answer before they look again."""
FEWEST_RUNS = MOST_RUNS // 4
"""Fewest runs in such a list, where there are more."""
Count: TypeAlias = Callable[[datetime | None], Awaitable[int]]
"""Counts the runs that wait and began up to a time; None: all that wait."""
_SPANS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=10_000))
_SKEW = timedelta(days=1)
_STEPS = 26
"""Most halvings of the time in which the wanted moment lies: of a day, 1 ms is left."""


class OldestRuns:
    """The oldest waiting runs. Remembers from one reading to the next up to when they began."""

    def __init__(self) -> None:
        self._until: datetime | None = None

    async def find(self, count: Count, now: datetime) -> tuple[datetime | None, int]:
        """Return a time up to which few enough runs began, and the number of those that began later.

        None: all of them are few enough. Where too many began at the same moment, the time is that moment, and all but
        MOST_RUNS of them count as later.
        """
        total = await count(None)
        if total <= MOST_RUNS:
            return None, 0
        found = 0 if self._until is None else await count(self._until)
        if self._until is None or not FEWEST_RUNS <= found <= MOST_RUNS:
            self._until, found = await _search(count, now, total)
        return self._until, total - min(found, MOST_RUNS)


async def _search(count: Count, now: datetime, total: int) -> tuple[datetime, int]:
    """Return the time, and the number of runs that began up to it."""
    # The clock of the server is not the one here.
    late, found, early = now + _SKEW, total, now
    for span in _SPANS:
        early = now - span
        before = await count(early)
        if before <= MOST_RUNS:
            if before >= FEWEST_RUNS:
                return early, before
            break
        late, found = early, before
    for _ in range(_STEPS):
        middle = early + (late - early) / 2
        before = await count(middle)
        if before > MOST_RUNS:
            late, found = middle, before
        elif before >= FEWEST_RUNS:
            return middle, before
        else:
            early = middle
    return late, found
