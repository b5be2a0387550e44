"""Batches that nobody waits for any more, which are cancelled at their provider.

A turn that waits for a batch runs nowhere, so nothing here is told when its run is cancelled or terminated: the server
is asked. Only a batch all of whose turns are known to this process is ever cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pydantic_ai.exceptions import ModelAPIError, UserError
from pydantic_ai.models import Model
from pydantic_ai.models.batch import Batch
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

_log = logging.getLogger(__name__)


class WaitingTurn(NamedTuple):
    """Activity that waits for a batch."""

    workflow_id: str
    run_id: str
    activity_id: str


@dataclass
class _Watched:
    model: Model
    batch: Batch
    turns: dict[str, WaitingTurn]
    """Turns, by the ids of their requests."""


class AbandonedBatches:
    """Watches the batches that turns of the running event loop wait for."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._watching: asyncio.Task[None] | None = None

    def waits(
        self, client: Client, model: Model, batch: Batch, custom_id: str, turn: WaitingTurn, every: timedelta
    ) -> None:
        """Note that a turn waits for a batch; every so often somebody looks whether it still does."""
        key = (batch.group, batch.id)
        watched = self._watched.setdefault(key, _Watched(model, batch, {}))
        watched.batch, watched.turns[custom_id] = batch, turn
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch(client, every))

    def ended(self, batch: Batch) -> None:
        """Note that a batch has ended: nothing is saved by cancelling it."""
        self._watched.pop((batch.group, batch.id), None)

    async def _watch(self, client: Client, every: timedelta) -> None:
        while self._watched:
            await asyncio.sleep(every.total_seconds())
            for key, watched in list(self._watched.items()):
                requests = watched.batch.request_count  # 0 where the provider does not say
                if not requests or len(watched.turns) < requests or await _any_waits(client, watched):
                    continue
                self._watched.pop(key, None)
                await _cancel(watched)


async def _any_waits(client: Client, watched: _Watched) -> bool:
    for custom_id, turn in list(watched.turns.items()):
        if await _waits(client, turn):
            # It stands first when somebody looks next: then one question to the server is mostly enough.
            watched.turns = {custom_id: turn, **watched.turns}
            return True
    return False


async def _waits(client: Client, turn: WaitingTurn) -> bool:
    """Return whether a turn is still pending; True where the server does not say."""
    try:
        described = await client.get_workflow_handle(turn.workflow_id, run_id=turn.run_id).describe()
    except RPCError as error:
        return error.status != RPCStatusCode.NOT_FOUND
    # The server goes on listing the activities of a workflow that was terminated.
    if described.status != WorkflowExecutionStatus.RUNNING:
        return False
    return any(one.activity_id == turn.activity_id for one in described.raw_description.pending_activities)


async def _cancel(watched: _Watched) -> None:
    try:
        await watched.model.batch_cancel(watched.batch)
    except (ModelAPIError, UserError) as error:
        _log.warning("batch %s, which nobody waits for, could not be cancelled: %s", watched.batch.id, error)
    else:
        _log.info("batch %s is cancelled: nobody waits for it", watched.batch.id)


_abandoned: WeakKeyDictionary[asyncio.AbstractEventLoop, AbandonedBatches] = WeakKeyDictionary()


def abandoned_batches() -> AbandonedBatches:
    """Return those of the running event loop, with the clients of its models."""
    return _abandoned.setdefault(asyncio.get_running_loop(), AbandonedBatches())
