"""The events of a run have one order, whoever reads them, and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.views import follower
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_view import ViewEvent
from llm_do_temporal.testing import Call, call, scripted
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

CHILDREN = 6


async def read(place: Place, run: str, *, follow: bool) -> list[ViewEvent]:
    return [event async for event in place.client.events(run, follow=follow)]


@pytest.mark.thorough
async def test_everybody_reads_the_same_events_in_the_same_order(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine is no run that was reset, whose missing events nobody waits for.
    for patience in ("_PATIENCE_SECONDS", "_LONGEST_SECONDS"):
        monkeypatch.setattr(follower, patience, PATIENCE_SECONDS)
    place.write("a.txt", "one")
    reads: list[list[Call]] = [[call("read_file", path="/a.txt")] for _ in range(4)]
    place.worker("child", scripted(*reads, "Read."), toolsets={"filesystem": {}})
    many = [call("child", input=f"number {number}") for number in range(CHILDREN)]
    place.worker("main", scripted(many, many, "Done."), toolsets={"delegation": {"child": {}}})
    run = await place.start("main", mode="approve_all")
    live = [asyncio.create_task(read(place, run, follow=True)) for _ in range(3)]
    await place.client.result(run)
    after = await read(place, run, follow=False)
    assert {event.path for event in after} == {"", "main", *(f"main/child-{n}" for n in range(1, 2 * CHILDREN + 1))}
    assert len({event.order for event in after}) == len(after)
    for told in live:
        assert await told == after


async def test_what_is_read_late_of_a_child_is_told_although_the_run_has_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.worker("child", scripted("Read."))
    place.worker("main", scripted(call("child", input="x"), "Done."), toolsets={"delegation": {"child": {}}})
    run = await place.start("main", mode="approve_all")
    read_chain, is_behind = follower.read_chain, follower.EventSequence.is_behind
    looks: list[bool] = []
    late = asyncio.Event()

    async def slow(client: Client, workflow_id: str, *args: Any, **more: Any) -> AsyncIterator[HistoryEvent]:
        if workflow_id != run:
            await late.wait()
        async for event in read_chain(client, workflow_id, *args, **more):
            yield event

    async def looked(sequence: follower.EventSequence) -> bool:
        looks.append(await is_behind(sequence))
        if len(looks) == 3:
            late.set()
        return looks[-1]

    with monkeypatch.context() as patched:
        patched.setattr(follower, "read_chain", slow)
        patched.setattr(follower.EventSequence, "is_behind", looked)
        patched.setattr(follower, "_SETTLE_SECONDS", 0.1)
        patched.setattr(follower, "_PATIENCE_SECONDS", PATIENCE_SECONDS)
        told = await read(place, run, follow=True)
    assert looks[:3] == [True] * 3
    assert told == await read(place, run, follow=False)
    assert "main/child-1" in {one.path for one in told}


async def test_an_event_counts_as_read_once_it_was_taken(place: Place) -> None:
    """Nobody may put events in order who still waits for one of them."""
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    await place.client.result(run)
    reader = Follower(place.client.temporal, run, wait=True)
    counted: list[bool] = []
    async for event in reader.events():
        newest = await place.client.temporal.get_workflow_handle(event.order.workflow_id).describe()
        counted.append(reader.has_read(event.order.workflow_id, newest.run_id, event.order.event_id))
    assert counted
    assert not any(counted)


async def test_a_question_does_not_hold_back_what_happened_before_it(place: Place) -> None:
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    seen: list[str] = []
    async for event in place.client.events(run, follow=True):
        seen.append(event.type)
        if event.type == "desk.changed" and event.data["pending"]:
            assert "approval.requested" in seen
            await place.decide(run)
    assert seen[-1] == "run.completed"
