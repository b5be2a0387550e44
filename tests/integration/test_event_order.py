"""The events of a run have one order, whoever reads them, and whenever."""

from __future__ import annotations

import asyncio

from llm_do_temporal.client.view import ViewEvent
from llm_do_temporal.testing import Call, call, scripted
from tests.integration.conftest import Place

CHILDREN = 6


async def read(place: Place, run: str, *, follow: bool) -> list[ViewEvent]:
    return [event async for event in place.client.events(run, follow=follow)]


async def test_everybody_reads_the_same_events_in_the_same_order(place: Place) -> None:
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
