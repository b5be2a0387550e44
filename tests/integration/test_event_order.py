"""The events of a run have one order, whoever reads them, and whenever."""

from __future__ import annotations

import asyncio

import pytest

from llm_do_temporal.client.views import event_order
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_view import ViewEvent
from llm_do_temporal.testing import Call, call, scripted
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

CHILDREN = 6


async def read(place: Place, run: str, *, follow: bool) -> list[ViewEvent]:
    return [event async for event in place.client.events(run, follow=follow)]


async def test_everybody_reads_the_same_events_in_the_same_order(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine is no run that was reset, whose missing events nobody waits for.
    for patience in ("_PATIENCE_SECONDS", "_SETTLE_SECONDS"):
        monkeypatch.setattr(event_order, patience, PATIENCE_SECONDS)
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


async def test_an_event_counts_as_read_once_it_was_taken(place: Place) -> None:
    """Nobody may put events in order who still waits for one of them."""
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    await place.client.result(run)
    follower = Follower(place.client.temporal, run, wait=True)
    counted: list[bool] = []
    async for event in follower.events():
        newest = await place.client.temporal.get_workflow_handle(event.order.workflow_id).describe()
        counted.append(follower.has_read(event.order.workflow_id, newest.run_id, event.order.event_id))
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
