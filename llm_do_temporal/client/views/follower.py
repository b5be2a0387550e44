"""Reading the histories of a run's workflows as they grow, for any number of readers and after the fact too.

Histories are read side by side and arrive as they please. `ordered_events` tells an event once nothing that belongs
before it can come any more, which the server is asked about, so the order is the same on every reading. Where several
machines of a server write histories, their clocks may differ, and with them the order in which a live reader and a
later one see events of different invocations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.history.events import ENDS, decode_json, read_chain
from llm_do_temporal.client.views.run_view import EventOrder, Node, RunView, ViewEvent, item_event, items_of, results_of
from llm_do_temporal.client.views.server_list import pending_from_memo
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.base import PENDING_MEMO

Tap = Callable[[str, HistoryEvent], None]
"""Callback that takes the id of a workflow and the next event of its history."""
_PATIENCE_SECONDS = 10.0
"""Seconds without anything read after which events are told although some history is behind. A workflow that was reset
always looks behind: its events name another run than the server does."""
_LONGEST_SECONDS = 30.0
"""Seconds after which they are told in any case, while other histories are read."""
_SETTLE_SECONDS = 2.0
"""Seconds without anything read, once the run has ended, between two looks whether there is more."""
_TELL_SECONDS = 0.1
_Read: TypeAlias = tuple[str, HistoryEvent | None]
"""Id of a workflow, and the next event of its history; None for its end."""


@dataclass
class _Reading:
    """Position up to which the history of one workflow was read."""

    task: asyncio.Task[None]
    open: bool = True
    run_id: str = ""
    order: EventOrder = field(default=EventOrder(datetime.min))
    told: tuple[str, int] = ("", 0)
    """Run and event up to which the reader of this follower has taken everything."""

    def move(self, workflow_id: str, event: HistoryEvent) -> None:
        """Note that this event was read."""
        run = self.order.run
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            run += 1
            self.run_id = event.workflow_execution_started_event_attributes.original_execution_run_id
        at = max(self.order.at, event.event_time.ToDatetime())
        self.order = EventOrder(at, workflow_id, run, event.event_id)


class Follower:
    """Follows one run: its desk and every invocation below it."""

    def __init__(self, client: Client, run: str, *, wait: bool, tap: Tap | None = None) -> None:
        """Make a follower; `tap` is called with each event and its workflow's id before `events` yields its meaning."""
        self.view = RunView(run=run)
        self._entry = Node(run)
        """The entry invocation, in the view once it has begun."""
        self._client = client
        self._wait = wait
        self._tap = tap
        self._queue: asyncio.Queue[_Read | Exception] = asyncio.Queue()
        self._readers: dict[str, _Reading] = {}
        self._beginning: dict[str, str] = {}
        """Workflows that nobody has seen begin -> the parents that have asked for them."""
        self.moved = asyncio.Event()
        """Set whenever something was read; the task that waits for it clears it."""

    @property
    def open_histories(self) -> set[str]:
        """The workflows whose histories have not been read to their end."""
        return {workflow_id for workflow_id, reading in self._readers.items() if reading.open}

    @property
    def is_complete(self) -> bool:
        """Whether every workflow that was asked for is known."""
        return not self.open_histories.intersection(self._beginning.values())

    def has_read(self, workflow_id: str, run_id: str, events: int) -> bool:
        """Whether so many events of this run of a workflow were read and taken, or all there will ever be."""
        reading = self._readers[workflow_id]
        told_run, told = reading.told
        return not reading.open or (told_run == run_id and told >= events)

    async def events(self) -> AsyncGenerator[ViewEvent]:
        """Every telling event, with `view` already up to date; ends with the run (or, not waiting, with the news)."""
        self._read(self.view.run, None)
        try:
            while self.open_histories:
                got = await self._queue.get()
                if isinstance(got, Exception):
                    raise got
                for told in self._take(got):
                    yield told
                reading = self._readers[got[0]]
                reading.told = (reading.run_id, reading.order.event_id)
                self.moved.set()
        finally:
            for reading in self._readers.values():
                reading.task.cancel()

    async def read(self) -> RunView:
        """Return the view once all that there is has been taken in."""
        async for _ in self.events():
            pass
        return self.view

    def _take(self, got: _Read) -> list[ViewEvent]:
        workflow_id, event = got
        reading = self._readers[workflow_id]
        if event is None:
            reading.open = False
            return []
        if self._tap is not None:
            self._tap(workflow_id, event)
        reading.move(workflow_id, event)
        told = self._apply(workflow_id, event)
        return [replace(one, order=reading.order._replace(part=part)) for part, one in enumerate(told)]

    def _apply(self, workflow_id: str, event: HistoryEvent) -> list[ViewEvent]:
        # What this event starts is read from now on.
        asked = event.start_child_workflow_execution_initiated_event_attributes.workflow_id
        if asked:
            self._beginning[asked] = workflow_id
        self._beginning.pop(event.start_child_workflow_execution_failed_event_attributes.workflow_id, None)
        if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            self._beginning.pop(child.workflow_id, None)
            self._read(child.workflow_id, child.run_id)
        if workflow_id == self.view.run:
            return self._apply_run(event)
        node = self.view.nodes.setdefault(workflow_id, Node(workflow_id))
        told, item = node.apply(event), self.view.items.get(workflow_id)
        if item is not None:
            node.item = item.name
            # What this workflow's own callees come to is no end of the item.
            if event.event_type in ENDS and item.take_end(event):
                told.append(item_event(item, event.event_time.ToDatetime()))
        return told

    def _apply_run(self, event: HistoryEvent) -> list[ViewEvent]:
        """Return what an event of the run's own history tells of the run and of its entry invocation."""
        at = event.event_time.ToDatetime()
        told = self._entry.apply(event)
        if self._entry.started_at is not None:
            self.view.nodes.setdefault(self.view.run, self._entry)
        is_start = event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
        is_first = is_start and self.view.started_at is None
        if is_first:
            self.view.started_at = at
            told.insert(0, ViewEvent("run.started", at, "", {"run": self.view.run}))
        if is_first or (is_start and not self.view.items):
            # The items of a run that reads them first are known once it goes on with them.
            self.view.items = items_of(self.view.run, event)
            told += [item_event(item, at) for item in self.view.items.values() if not item.is_open]
        memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields
        if PENDING_MEMO in memo:
            # Only once the desk itself tells which questions wait can they be answered.
            self.view.pending = pending_from_memo(decode_json(memo[PENDING_MEMO]))
            told.append(ViewEvent("desk.changed", at, "", {"pending": [one.id for one in self.view.pending]}))
        if event.event_type in ENDS:
            self.view.status, self.view.error, self.view.ended_at = self._entry.status, self._entry.error, at
            self.view.pending = []
            for (workflow_id, item), result in zip(self.view.items.items(), results_of(event), strict=False):
                # It failed before it became a workflow.
                if workflow_id not in self._readers and item.take_result(result):
                    told.append(item_event(item, at))
            ended = f"run.{self.view.status.replace(' ', '_')}"
            told.append(ViewEvent(ended, at, "", {"error": self.view.error or None}))
        return told

    def _read(self, workflow_id: str, run_id: str | None) -> None:
        if workflow_id not in self._readers:
            self._readers[workflow_id] = _Reading(asyncio.create_task(self._pump(workflow_id, run_id)))

    async def _pump(self, workflow_id: str, run_id: str | None) -> None:
        try:
            async for event in read_chain(self._client, workflow_id, run_id, wait=self._wait):
                await self._queue.put((workflow_id, event))
        except RPCError as error:
            # A child whose history is already deleted has nothing more to tell; the run itself must exist.
            if not is_missing(error) or workflow_id == self.view.run:
                await self._queue.put(error)
        except LlmDoError as error:
            await self._queue.put(error)
        await self._queue.put((workflow_id, None))


async def ordered_events(client: Client, run: str, *, follow: bool) -> AsyncIterator[ViewEvent]:
    """The events of a run in their order: those that there are, or until it ends. Raises RPCError."""
    follower = Follower(client, run, wait=follow)
    if not follow:
        for event in sorted([event async for event in follower.events()], key=lambda event: event.order):
            yield event
        return
    sequence = EventSequence(client, follower)
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


async def _read(follower: Follower, sequence: EventSequence) -> None:
    """Read until the run has ended and all its histories are read, or nothing comes for _PATIENCE_SECONDS."""
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


class EventSequence:
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
