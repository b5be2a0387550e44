"""Looks at batches, shared by the turns of one process that wait for the same one.

Hundreds of turns that wait for a batch ask its provider once, and read its answers once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from weakref import WeakKeyDictionary

from pydantic_ai.models import Model
from pydantic_ai.models.batch import Batch, BatchResult

from llm_do_temporal.activities.models.answer_bounds import many_answers

MOST_KEPT = 16
"""Batches whose last state is kept, and their answers once they have ended."""
MOST_KEPT_BYTES = 128 * 1024 * 1024
"""Size from which the answers of the batch read longest ago are dropped; a turn that still needs them reads them again.
"""
_FRESH = 0.5
"""Part of the time between two looks for which the state that was seen last is still told."""


@dataclass
class _Seen:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at: float = 0.0
    batch: Batch | None = None
    answers: dict[str, BatchResult] | None = None
    size: int = 0


class BatchChecks:
    """Batches as the running event loop has seen them last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    async def look(self, model: Model, batch: Batch, between: timedelta) -> tuple[Batch, dict[str, BatchResult] | None]:
        """Return a batch as it is, and its answers by the ids of their requests; None while it is under way.

        `between` is the shortest time between two looks. Raises ModelAPIError.
        """
        seen = self._seen.setdefault((batch.group, batch.id), _Seen())
        self._seen.move_to_end((batch.group, batch.id))
        async with seen.lock:
            old = seen.batch is None or time.monotonic() - seen.at > between.total_seconds() * _FRESH
            # A batch that has ended stays so.
            if old and seen.answers is None:
                seen.batch = await model.batch_status(batch)
                seen.at = time.monotonic()
            state = seen.batch or batch
            if state.status == "ended" and seen.answers is None:
                with many_answers():
                    results = await model.batch_results(state)
                seen.answers = {result.custom_id: result for result in results}
                seen.size = sum(len(result.body or "") for result in results)
        self._drop()
        return state, seen.answers

    def _drop(self) -> None:
        while len(self._seen) > 1 and (
            len(self._seen) > MOST_KEPT or sum(seen.size for seen in self._seen.values()) > MOST_KEPT_BYTES
        ):
            self._seen.popitem(last=False)


_checks: WeakKeyDictionary[asyncio.AbstractEventLoop, BatchChecks] = WeakKeyDictionary()


def batch_checks() -> BatchChecks:
    """Return those of the running event loop: locks belong to a loop."""
    return _checks.setdefault(asyncio.get_running_loop(), BatchChecks())
