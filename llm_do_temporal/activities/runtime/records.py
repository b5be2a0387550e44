"""Records of other runs that forks reuse: read once from the blob store, and at hand for all their activities."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from pydantic import ValidationError

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.batches import item_of
from llm_do_temporal.messages.experiments.forks import INDEX_VERSION, ForkIndex, RecordedCall, RecordedTurn
from llm_do_temporal.messages.experiments.source import ForkSource
from llm_do_temporal.storage.blobs import BlobStore

MOST_RECORDS = 8
"""Records kept in memory; those used longest ago leave first."""
Recorded = TypeVar("Recorded", RecordedCall, RecordedTurn)


class ForkRecords:
    """Records in a blob store."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._read = lru_cache(MOST_RECORDS)(self._read_index)

    def index(self, source: ForkSource) -> ForkIndex:
        """Return the record.

        Raises EffectFailed where it is not there, is of another run or version, or has more than its use allows.
        """
        index = self._read(source.index)
        if index.run != source.run:
            raise EffectFailed(f"the record '{source.index[:12]}' is not of run '{source.run}'")
        if source.in_place and (index.loaded is not None or index.reads or index.answers or index.asked):
            raise EffectFailed(
                f"the record '{source.index[:12]}' is one for a fork: it has settings, decisions or files of run "
                f"'{source.run}', and a run that works in place takes none of another",
                next_step="Fork the run, or try its batch again with `start --retry-failed`.",
            )
        return index

    async def turn(self, source: ForkSource, key: str, path: str) -> RecordedTurn | None:
        """Return the turn with this key, if one is recorded; see `chosen`."""
        index = await asyncio.to_thread(self.index, source)
        return chosen(index.turns.get(key, ()), path, index if source.in_place else None)

    def _read_index(self, digest: str) -> ForkIndex:
        try:
            index = ForkIndex.model_validate_json(self._blobs.read(digest))
        except ValidationError as error:
            raise EffectFailed(
                f"the blob '{digest[:12]}' is no record of a run", next_step="Fork the run again."
            ) from error
        if index.version != INDEX_VERSION:
            raise EffectFailed(
                f"the record '{digest[:12]}' has version {index.version}; this is version {INDEX_VERSION}",
                next_step="Fork the run again.",
            )
        return index


def chosen(recorded: Sequence[Recorded], path: str, in_place: ForkIndex | None = None) -> Recorded | None:
    """Return the step of the invocation at this path, else the first; None where there is none.

    `in_place` is the record of a run that goes on in place, None for any other. There only steps of the same item
    count: what a twin with the same content has done is done for the twin.
    """
    if in_place is None:
        return next((one for one in recorded if one.path == path), recorded[0] if recorded else None)
    item = item_of(path)
    before = in_place.items.get(item, item)
    own = [one for one in recorded if item_of(one.path) == before]
    return next((one for one in own if one.path == before + path.removeprefix(item)), own[0] if own else None)
