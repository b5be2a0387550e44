"""Requests that wait for each other, and leave together in one batch of their provider.

Owns the short wait of the requests of one process. Nothing here survives the process: the turn that waits has told the
server before what it is about to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from weakref import WeakKeyDictionary

from pydantic_ai.models import Model
from pydantic_ai.models.batch import Batch, EncodedBatchRequest

MOST_REQUESTS = 500
"""Most requests of one batch: their answers come in one file, which is held in memory while it is read."""
MOST_BYTES = 64 * 1024 * 1024
"""Size from which requests leave without waiting for others; they are held in memory until then."""


class NotWanted(Exception):
    """Request that did not leave, because somebody else has taken over the turn meanwhile, or its run was cancelled."""


@dataclass(frozen=True)
class Passenger:
    """Request that waits to leave."""

    request: EncodedBatchRequest
    is_wanted: Callable[[], Awaitable[bool]]
    """Question to the server, asked right before the departure: this process may have been stopped for a while."""


@dataclass
class Departure:
    """Requests that leave together, and the batch that they become."""

    model: Model
    requests: dict[str, Passenger] = field(default_factory=dict[str, Passenger])
    size: int = 0
    batch: asyncio.Future[Batch | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    has_left: bool = False


class Departures:
    """Departures of one event loop, by what their requests must share."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Departure] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def join(self, model: Model, passenger: Passenger, window: timedelta, *, alone: bool) -> Batch:
        """Return the batch that the request has become a part of.

        Raises NotWanted, and what the creation of the batch raises. Cancelled before the departure, the request is
        not sent.
        """
        request = passenger.request
        size = model.batch_request_size(request)
        key = (model.system, request.group)
        departure = self._departure(key, model, size, window, alone=alone)
        departure.requests[request.custom_id] = passenger
        departure.size += size
        most = model.batch_max_requests or MOST_REQUESTS
        if len(departure.requests) >= min(most, MOST_REQUESTS) or departure.size >= self._most_bytes(model):
            self._leave(key, departure)
        try:
            batch = await asyncio.shield(departure.batch)
        except asyncio.CancelledError:
            if not departure.has_left:
                departure.requests.pop(request.custom_id, None)
                departure.size -= size
            raise
        if batch is None or request.custom_id not in departure.requests:
            raise NotWanted
        return batch

    def _departure(self, key: tuple[str, str], model: Model, size: int, window: timedelta, *, alone: bool) -> Departure:
        if alone:
            departure = Departure(model)
            self._after(timedelta(0), lambda: self._leave(None, departure))
            return departure
        waiting = self._open.get(key)
        if waiting is not None and waiting.requests and waiting.size + size > self._most_bytes(model):
            self._leave(key, waiting)
            waiting = None
        if waiting is not None:
            return waiting
        departure = self._open[key] = Departure(model)
        self._after(window, lambda: self._leave(key, departure))
        return departure

    def _most_bytes(self, model: Model) -> int:
        return min(model.batch_max_bytes or MOST_BYTES, MOST_BYTES)

    def _after(self, window: timedelta, leave: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(window.total_seconds(), leave)

    def _leave(self, key: tuple[str, str] | None, departure: Departure) -> None:
        if key is not None and self._open.get(key) is departure:
            del self._open[key]
        if departure.has_left:
            return
        departure.has_left = True
        task = asyncio.get_running_loop().create_task(_create(departure))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _create(departure: Departure) -> None:
    try:
        waiting = list(departure.requests.items())
        wanted = await asyncio.gather(*(passenger.is_wanted() for _, passenger in waiting))
        for (custom_id, _), stays in zip(waiting, wanted, strict=True):
            if not stays:
                del departure.requests[custom_id]
        leaving = [passenger.request for passenger in departure.requests.values()]
        batch = await departure.model.batch_create(leaving) if leaving else None
    except Exception as error:
        departure.batch.set_exception(error)
        departure.batch.exception()  # all who waited may be cancelled; then nobody else takes it
    else:
        departure.batch.set_result(batch)


_departures: WeakKeyDictionary[asyncio.AbstractEventLoop, Departures] = WeakKeyDictionary()


def departures() -> Departures:
    """Return those of the running event loop: futures belong to a loop."""
    return _departures.setdefault(asyncio.get_running_loop(), Departures())
