"""Streams of events that go on over many connections, of a run whose workflow is continued as new many times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.doors.http_client import Program, person
from tests.support.runs.parked import FILESYSTEM
from tests.support.runs.place import Place

TURNS = 60
CALLS = 8
"""Calls of each turn, side by side."""
TURNS_A_RUN = 6


async def read_in_pieces(who: Program, run: str, piece: int) -> tuple[list[Any], int]:
    """Return all events, read over as many connections as it takes to read so many with each, and their number."""
    found: list[Any] = []
    connections = 0
    while True:
        connections += 1
        stream = who.events(run, after=int(found[-1]["id"]) if found else 0)
        async with aclosing(cast("AsyncGenerator[Any]", stream)) as events:
            part = [event async for event in _first(events, piece)]
        found += part
        if part and part[-1]["event"] == "end":
            return found, connections


async def _first(events: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        count -= 1
        if not count:
            return


@pytest.mark.thorough
@pytest.mark.timeout(600)  # 480 calls: a minute and more on a machine that is busy
async def test_no_event_is_lost_or_told_twice_over_many_connections(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", TURNS_A_RUN)
    place.write("a.txt", "a")
    reads = [[call("read_file", path="/a.txt") for _ in range(CALLS)] for _ in range(TURNS)]
    place.worker("reader", scripted(*reads, "Done."), toolsets=FILESYSTEM, export=True)
    ada = person(place)
    limits = {"turns": TURNS + 10, "tool_calls": TURNS * CALLS + 10}
    started = await ada.start("reader", limits=limits)
    run = started.body["run"]
    place.started.append(run)
    (live, lives), (other, others) = await asyncio.gather(read_in_pieces(ada, run, 150), read_in_pieces(ada, run, 110))
    whole = [event async for event in ada.events(run)]
    assert live == other == whole
    assert [int(event["id"]) for event in whole[:-1]] == list(range(1, len(whole)))
    assert (len(whole) > 1_000, lives > 5, others > 7) == (True, True, True), (len(whole), lives, others)
    assert whole[-1]["data"]["output"] == "Done."
    assert len(await place.chain(run)) >= TURNS // TURNS_A_RUN
