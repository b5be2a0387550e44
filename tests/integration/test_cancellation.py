"""Cancelling a run: everything below it stops, and it ends as cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.errors import RunCancelled
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegation_to
from tests.support.runs.place import Place


class Endless:
    """A model turn that never ends by itself."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.dropped = asyncio.Event()

    async def turn(self, _: list[ModelMessage]) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.dropped.set()

    @property
    def model(self) -> ScriptedModel:
        return scripted(self.turn)


async def test_cancelling_during_a_turn_drops_the_request_and_ends_the_run(place: Place) -> None:
    endless = Endless()
    place.worker("main", endless.model)
    run = await place.start("main")
    await endless.asked.wait()
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    await endless.dropped.wait()
    assert [node.status for node in (await place.client.view(run)).ordered] == ["cancelled"]


async def test_cancelling_reaches_every_child(place: Place) -> None:
    first, second = Endless(), Endless()
    place.worker("leaf", first.model)
    place.worker("other", second.model)
    place.worker("branch", scripted(call("leaf", input="go")), toolsets=delegation_to("leaf"))
    place.worker(
        "main",
        scripted([call("branch", input="a"), call("other", input="b")]),
        toolsets=delegation_to("branch", "other"),
    )
    run = await place.start("main", mode=APPROVE_ALL)
    await asyncio.gather(first.asked.wait(), second.asked.wait())
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    assert {node.path: node.status for node in (await place.client.view(run)).ordered} == {
        "main": "cancelled",
        "main/branch-1": "cancelled",
        "main/branch-1/leaf-1": "cancelled",
        "main/other-1": "cancelled",
    }


async def test_terminating_a_run_cancels_what_it_started(place: Place) -> None:
    endless = Endless()
    place.worker("main", endless.model)
    run = await place.start("main")
    await endless.asked.wait()
    await place.client.temporal.get_workflow_handle(run).terminate(reason="enough")
    with pytest.raises(RunCancelled, match="terminated: enough"):
        await place.client.result(run)
    await endless.dropped.wait()


async def test_a_run_that_has_ended_cannot_be_cancelled_into_something_else(place: Place) -> None:
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    await place.client.result(run)
    await place.client.cancel(run)
    assert (await place.client.result(run)).output == "Done."
