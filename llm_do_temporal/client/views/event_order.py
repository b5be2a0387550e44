"""The events of a run in one order, the same on every reading: live, later, on any number of terminals.

Histories are read side by side and arrive as they please. An event is told once nothing that belongs before it can
come any more, which the server is asked about. Where several machines of a server write histories, their clocks may
differ, and with them the order in which a live reader and a later one see events of different invocations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import is_missing
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_view import EventOrder, ViewEvent

_PATIENCE_SECONDS = 10.0
"""Seconds without anything read after which events are told although some history is behind. A workflow that was reset
always looks behind: its events name another run than the server does."""
_LONGEST_SECONDS = 30.0
"""Seconds after which they are told in any case, while other histories are read."""
_SETTLE_SECONDS = 2.0
"""Seconds without anything read, once the run has ended, between two looks whether there is more."""
_TELL_SECONDS = 0.1


async def ordered_events(client: Client, run: str, *, follow: bool) -> AsyncIterator[ViewEvent]:
    """The events of a run in their order: those that there are, or until it ends. Raises RPCError."""
    follower = Follower(client, run, wait=follow)
    if not follow:
        for event in sorted([event async for event in follower.events()], key=lambda event: event.order):
            yield event
        return
    sequence = Sequence(client, follower)
    reading = asyncio.create_task(_read(follower, sequence))
    try:
        while not reading.done():
            for event in await sequence.settled():
                yield event
            await asyncio.wait({reading}, timeout=_TELL_SECONDS)
        reading.result()
        for event in sequence.rest():
            yield event
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read(follower: Follower, sequence: Sequence) -> None:
    """Read until the run has ended and its children's histories are read, or nothing comes for _PATIENCE_SECONDS.

    Raises RPCError.
    """
    events = follower.events()
    following = asyncio.ensure_future(anext(events, None))
    quiet = 0.0
    try:
        while quiet < _PATIENCE_SECONDS:
            patience = None if follower.view.status == "running" else _SETTLE_SECONDS
            await asyncio.wait({following}, timeout=patience)
            if not following.done():
                quiet += _SETTLE_SECONDS
                if await sequence.is_behind() or following.done():
                    continue
                return
            event, quiet = following.result(), 0.0
            if event is None:
                return
            sequence.take(event)
            following = asyncio.ensure_future(anext(events, None))
    finally:
        sequence.is_over = True
        follower.moved.set()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await events.aclose()


class Sequence:
    """Puts the events of a follower in order."""

    def __init__(self, client: Client, follower: Follower) -> None:
        self._client = client
        self._follower = follower
        self._held: list[ViewEvent] = []
        self._asked: dict[str, tuple[str, int] | None] = {}
        """Histories up to which the events wait, by workflow; see `_length`."""
        self._given_up: set[tuple[str, str]] = set()
        """Workflows, with their runs, for which events have waited in vain; they wait no more until these are read."""
        self.is_over = False
        """Whether nothing more is read."""

    def take(self, event: ViewEvent) -> None:
        """An event, in whatever order they are read."""
        self._held.append(event)

    async def settled(self) -> list[ViewEvent]:
        """Return the events taken so far that are settled and were not returned yet, in order. Raises RPCError.

        Must run beside the task that reads the follower, not in its place: it waits until more was read.
        """
        if not self._held:
            return []
        until = max(event.order for event in self._held)
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                await self._read_up_to_now()
        except TimeoutError:
            self._given_up = self._behind(self._asked)
        return self._release(until)

    def rest(self) -> list[ViewEvent]:
        """All that is left, in order, for when nothing more is read."""
        return self._release(None)

    async def is_behind(self) -> bool:
        """Return whether some history holds more than was read of it. Raises RPCError."""
        opened = sorted(self._follower.open_histories)
        lengths = await asyncio.gather(*map(self._length, opened))
        return bool(self._behind(dict(zip(opened, lengths, strict=True))))

    def _behind(self, lengths: Mapping[str, tuple[str, int] | None]) -> set[tuple[str, str]]:
        """Return the workflows, with their runs, that were not read up to this run and length."""
        told = ((name, *length) for name, length in lengths.items() if length is not None)
        return {(name, run) for name, run, count in told if not self._follower.has_read(name, run, count)}

    def _release(self, until: EventOrder | None) -> list[ViewEvent]:
        ready = sorted(self._held, key=lambda event: event.order)
        count = sum(until is None or event.order <= until for event in ready)
        self._held = ready[count:]
        return ready[:count]

    async def _read_up_to_now(self) -> None:
        """Wait until all that the histories held when this began was read, with the invocations begun by then."""
        lengths = self._asked = {}
        while self._follower.open_histories and not self.is_over:
            new = sorted(self._follower.open_histories - lengths.keys())
            lengths.update(zip(new, await asyncio.gather(*map(self._length, new)), strict=True))
            behind = self._behind(lengths)
            self._given_up &= behind
            is_read = not behind - self._given_up
            if self._follower.is_complete and is_read and not self._follower.open_histories - lengths.keys():
                return
            self._follower.moved.clear()
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._follower.moved.wait()

    async def _length(self, workflow_id: str) -> tuple[str, int] | None:
        """The newest run of a workflow, and how many events it has now; None where the server no longer knows it."""
        try:
            description = await self._client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if not is_missing(error):
                raise
            return None
        return description.run_id, description.history_length
