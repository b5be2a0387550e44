"""The oldest of very many runs that wait for people: the server lists the newest first, but counts quickly.

So the time is searched up to which some hundred of them began, by counting; a list up to that time is short then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

MOST_RUNS = 300
"""Most runs in such a list: more questions than people answer before they look again."""
FEWEST_RUNS = MOST_RUNS // 4
"""Fewest runs in such a list, where there are more."""
Count: TypeAlias = Callable[[datetime], Awaitable[int]]
"""Counts the runs that wait and began after a time that the list begins with, and up to the given one."""
_SPANS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=10_000))
_SKEW = timedelta(days=1)
_MOMENT = timedelta(milliseconds=1)
"""Runs that began so close to one another are not told apart."""


@dataclass(frozen=True)
class _End:
    """Time with which a list ends."""

    until: datetime
    is_crowded: bool
    """Whether more runs than wanted began in the moment before it."""


class OldestRuns:
    """The oldest waiting runs. Remembers from one reading to the next up to when they began."""

    def __init__(self) -> None:
        self._ends: dict[int, _End] = {}
        """The end of the list of at most so many runs."""
        self._turn = asyncio.Lock()

    async def find(self, count: Count, now: datetime, *, most: int, after: datetime | None = None) -> datetime:
        """Return a time up to which at most so many runs began, and a quarter of that at least.

        Where more began at one moment, the time is the end of that moment. There are more than `most` in all. The count
        is of those that began after the time `after`; None: of all.
        """
        wanted = range(max(most // 4, 1), most + 1)
        async with self._turn:
            end = self._ends.get(most)
            if end is None or not await _still_fits(end, count, after, wanted):
                end = await _search(count, now, after, wanted)
                self._ends[most] = end
            return end.until


async def _still_fits(end: _End, count: Count, after: datetime | None, wanted: range) -> bool:
    if after is not None and end.until <= after:
        return False
    found = await count(end.until)
    return found in wanted or (end.is_crowded and found >= wanted.stop)


async def _search(count: Count, now: datetime, after: datetime | None, wanted: range) -> _End:
    # The clock of the server is not the one here.
    late, early = now + _SKEW, now
    for span in _SPANS:
        early = now - span
        if after is not None and early <= after:
            early = after
            break
        found = await count(early)
        if found in wanted:
            return _End(early, is_crowded=False)
        if found < wanted.start:
            break
        late = early
    while late - early > _MOMENT:
        middle = early + (late - early) / 2
        found = await count(middle)
        if found in wanted:
            return _End(middle, is_crowded=False)
        if found < wanted.start:
            early = middle
        else:
            late = middle
    return _End(late, is_crowded=True)
