"""Views of a fork: each of them says what was reused, where it was taken from, and what that has saved."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from llm_do_temporal.client.traces import Tracer
from llm_do_temporal.client.views.transcripts import read_transcript
from llm_do_temporal.extensions.forks.client_differences import read_difference
from llm_do_temporal.extensions.forks.client_forks import ForkRequest
from llm_do_temporal.testing import call, scripted
from tests.support.runs.place import Place

WRITE = call("write_file", path="/done.txt", content="done")


async def _fork(place: Place) -> tuple[str, str]:
    """A run that delegates and writes, and an unchanged fork of it."""
    place.worker("reader", scripted("Read."))
    tools: dict[str, Any] = {"filesystem": {}, "delegation": {"reader": {}}}
    model = scripted([call("reader", input="a"), WRITE], [call("reader", input="b")], "Done.")
    place.worker("main", model, toolsets=tools)
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main", aside=True)
    assert (await place.client.result(run)).output == "Done."
    fork = await place.client.fork(run, ForkRequest(), workshop=place.folder)
    place.started.append(fork)
    return run, fork


async def test_every_view_of_a_fork_says_what_was_reused(place: Place) -> None:
    run, fork = await _fork(place)
    result = await place.client.result(fork)
    view = await place.client.view(fork)
    assert view.usage == result.usage
    assert result.usage.requests == 0
    assert result.usage.saved is not None
    assert result.usage.saved.requests == 5
    (main,) = view.ordered
    steps = [(step.what, step.origin.removeprefix(f"{run} ")) for step in main.reused]
    assert steps[:1] == [("turn 1", "main turn 1")]
    assert sorted(steps[1:3]) == [("reader", "main turn 1"), ("write_file", "main turn 1")]
    assert steps[3:] == [("turn 2", "main turn 2"), ("reader", "main turn 2"), ("turn 3", "main turn 3")]
    assert (main.turns, main.reused_turns) == (3, 3)

    told = [entry async for entry in read_transcript(place.client.temporal, fork)]
    origins = [entry.details.get("reused") for entry in told if entry.kind in ("turn", "result")]
    children = ("", "main/reader-1", "", "", "main/reader-2", "")
    places = [{"run": run, "path": "main", "turn": turn} for turn in (1, 1, 1, 2, 2, 3)]
    wanted = [one | ({"child": child} if child else {}) for one, child in zip(places, children, strict=True)]
    assert origins == wanted
    summary = await place.client.status(fork)
    assert summary.fork_of == run
    assert (await read_difference(place.client.temporal, run, fork)).difference.is_same


@pytest.mark.thorough
async def test_traces_and_logs_name_the_place_of_what_was_reused(place: Place) -> None:
    run, fork = await _fork(place)
    await place.client.result(fork)
    logged = [event async for event in place.client.events(fork)]
    assert [event.data["tool"] for event in logged if event.type == "call.reused"].count("reader") == 2
    answered = [event.data["reused"] for event in logged if event.type == "turn.completed"]
    assert answered == [f"{run} main turn {turn}" for turn in (1, 2, 3)]
    tracer = Tracer(fork)
    histories: list[WorkflowHistory] = await place.chain(fork)
    spans = [span for event in histories[0].events for span in tracer.take(fork, event)]
    told = [dict(span.attributes or {}).get("llm_do.reused_from") for span in spans]
    found = sorted(str(origin) for origin in told if origin)
    assert found == [f"{run} main turn {turn}" for turn in (1, 1, 1, 2, 2, 3)]
