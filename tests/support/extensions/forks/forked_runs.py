"""Forks that tests start."""

from __future__ import annotations

from llm_do_temporal.extensions.forks.client_forks import ForkRequest
from llm_do_temporal.messages.runs import RunResult
from tests.support.runs.place import Place


async def forked(place: Place, run: str, changes: ForkRequest | None = None) -> RunResult:
    """Fork a run with these changes, and wait for the result."""
    place.started.append(await place.client.fork(run, changes or ForkRequest(), workshop=place.folder))
    return await place.client.result(place.started[-1])
