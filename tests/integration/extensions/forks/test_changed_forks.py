"""Forks of recorded runs with a change: what depends on it is asked anew, counted at the models, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extensions.forks.client_forks import ForkRequest, build_index
from llm_do_temporal.extensions.forks.client_records import read_run_record
from llm_do_temporal.extensions.forks.policy.cut import Cut
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.extensions.forks.forked_runs import forked
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place


def last_prompt(messages: list[ModelMessage]) -> str:
    """Return the newest prompt of a conversation."""
    newest = messages[-1]
    assert isinstance(newest, ModelRequest)
    return next(str(part.content) for part in newest.parts if isinstance(part, UserPromptPart))


async def readers(place: Place) -> tuple[str, ScriptedModel, ScriptedModel]:
    """A run with three readers at once, and its two models."""
    reader = scripted("Read.")
    main = scripted([call("reader", input=str(number)) for number in range(3)], "Done.")
    place.worker("reader", reader)
    place.worker("main", main, toolsets=delegation_to("reader"))
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    return run, reader, main


async def rejected(place: Place) -> str:
    """A run that asked to write a file, which a person has rejected."""
    place.worker("main", scripted(write_call("/a.txt"), "Pity.", write_call("/a.txt"), "Pity."), toolsets=FILESYSTEM)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="not here", by="ada")
    await place.client.result(run)
    return run


async def test_a_turn_that_is_asked_anew_and_says_the_same_asks_nothing_more(place: Place) -> None:
    run, reader, main = await readers(place)
    result = await forked(place, run, ForkRequest(at=("main/reader-2@1",)))
    assert result.output == "Done."
    assert (len(reader.requests), len(main.requests)) == (4, 2)
    recorded = await read_run_record(place.client.temporal, run)
    assert reader.requests[-1].prompt == recorded.invocations["main/reader-2"].start.prompt
    assert result.usage.requests == 1


async def test_a_changed_worker_runs_anew_with_its_callers_only_where_they_are_told_something_else(
    place: Place,
) -> None:
    run, reader, main = await readers(place)
    place.script("reader", other := scripted("Read otherwise."))
    file = place.folder / "workers/reader.worker"
    file.write_text(file.read_text().replace("Do it.", "Do it well."))
    result = await forked(place, run, ForkRequest(worker=file))
    assert result.usage.requests == 4
    assert (len(reader.requests), len(other.requests), len(main.requests)) == (3, 3, 3)
    assert other.requests[0].instructions == "Do it well."


async def test_a_changed_child_runs_alone_and_its_sibling_is_reused(place: Place) -> None:
    left, right = scripted(write_call("/left.txt"), "Left."), scripted(write_call("/right.txt"), "Right.")
    main = scripted([call("left", input="go"), call("right", input="go")], "Done.")
    place.worker("left", left, toolsets=FILESYSTEM)
    place.worker("right", right, toolsets=FILESYSTEM)
    place.worker("main", main, toolsets=delegation_to("left", "right"))
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    (place.folder / "right.txt").unlink()
    place.script("left", other := scripted(write_call("/other.txt"), "Another."))
    result = await forked(place, run, ForkRequest(settings=("left:model_settings.temperature=0",)))
    assert [len(model.requests) for model in (left, other, right, main)] == [2, 2, 2, 3]
    assert (tool_results(main, "left"), tool_results(main, "right")) == (["Another."], ["Right."])
    assert result.layer is not None
    assert sorted(result.layer.recent.entries) == ["other.txt", "right.txt"]


async def test_a_file_that_is_no_workers_file_of_the_run_is_refused(place: Place) -> None:
    run, _, _ = await readers(place)
    with pytest.raises(UsageError, match="did not call") as caught:
        await forked(place, run, ForkRequest(worker=Path("nobody.worker")))
    assert caught.value.next_step == "Its workers are: main, reader."


async def test_another_decision_asks_what_comes_after_it(place: Place) -> None:
    main = scripted(write_call("/a.txt"), "Done.", "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run)
    await place.client.result(run)
    (place.folder / "a.txt").unlink()
    result = await forked(place, run, ForkRequest(decide=('a1=reject:"not today"',)))
    assert result.layer is None
    assert result.usage.requests == 1
    assert "not today" in tool_results(main, "write_file")[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"path": "/b.txt"}, "not valid: .*content"),
        ({"path": "/b.txt", "content": "hi", "mode": 7}, "not valid: .*mode"),
        ({"path": "/../x", "content": "hi"}, "policy refuses the new arguments"),
        ({"path": "/b.txt", "content": "x" * 1_100_000}, "at most 1048576"),
    ],
)
async def test_a_decision_with_arguments_that_the_call_cannot_take_forks_nothing(
    place: Place, args: dict[str, object], says: str
) -> None:
    run = await rejected(place)
    started = len(place.started)
    with pytest.raises(UsageError, match=f"'a1=modify' cannot be: .*{says}"):
        await forked(place, run, ForkRequest(decide=(f"a1=modify:{json.dumps(args)}",)))
    assert len(place.started) == started


async def test_a_decision_that_only_named_people_can_take_is_theirs_and_not_that_of_the_other_run(place: Place) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": {"approvers": ["ada"]}}})
    run = await rejected(place)
    fork = await place.client.fork(run, ForkRequest(decide=("a1=approve",)), workshop=place.folder)
    place.started.append(fork)
    (question,) = await place.pending(fork)
    assert (question.request.tool, question.request.approvers) == ("write_file", ("ada",))
    await place.client.cancel(fork)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (ForkRequest(decide=("a1=approve", "a1=reject:no")), "'a1' is decided twice"),
        (ForkRequest(results=("main@1=a", "main@1#1=b")), "the result of 'main@1#1' is given twice"),
        (ForkRequest(settings=("limits.turns=3", "main:limits.turns=4")), "'limits.turns' of 'main' is set twice"),
    ],
)
async def test_a_fork_that_contradicts_itself_is_refused(place: Place, changes: ForkRequest, says: str) -> None:
    run = await rejected(place)
    with pytest.raises(UsageError, match=says):
        await place.client.fork(run, changes, workshop=place.folder)


async def test_a_setting_that_is_no_number_is_refused(place: Place) -> None:
    run = await rejected(place)
    for given in ("1e999", "hot", "true", ".inf", "1.0e+999"):
        with pytest.raises(DefinitionError, match=r"is a number|not a valid float"):
            await place.client.fork(
                run, ForkRequest(settings=(f"model_settings.temperature={given}",)), workshop=place.folder
            )


async def test_another_result_is_what_the_model_is_told(place: Place) -> None:
    run, reader, main = await readers(place)
    result = await forked(place, run, ForkRequest(results=("main@1#2=Something else.",)))
    assert result.usage.requests == 1
    assert len(reader.requests) == 3
    assert tool_results(main, "reader") == ["Read.", "Something else.", "Read."]


async def test_children_are_found_in_whatever_order_they_finished_and_were_read(place: Place) -> None:
    orders = random.Random(7)
    ready = [asyncio.Event() for _ in range(4)]

    async def in_order(messages: list[ModelMessage]) -> str:
        """Answer once those before it in the order of this run have answered."""
        mine = int(last_prompt(messages))
        place_in_order = order.index(mine)
        if place_in_order:
            await ready[order[place_in_order - 1]].wait()
        ready[mine].set()
        return f"Read {mine}."

    reader = scripted(in_order)
    main = scripted([call("reader", input=str(number)) for number in range(4)], "Done.")
    place.worker("reader", reader)
    place.worker("main", main, toolsets=delegation_to("reader"))
    order = [3, 1, 0, 2]
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    record = await read_run_record(place.client.temporal, run)
    index = build_index(record, Cut())
    for _ in range(100):
        shuffled = list(record.invocations.items())
        orders.shuffle(shuffled)
        other = build_index(dataclasses.replace(record, invocations=dict(shuffled)), Cut())
        assert (other.turns, other.calls) == (index.turns, index.calls)
    orders.shuffle(order)
    for event in ready:
        event.clear()
    result = await forked(place, run, ForkRequest(at=("main@2",)))
    assert (len(reader.requests), len(main.requests)) == (4, 3)
    assert result.usage.requests == 1


async def test_a_fork_of_a_fork_has_the_files_of_what_was_taken_over_whole(place: Place) -> None:
    leaf = scripted(write_call("/leaf.txt"), "Leaf.")
    main = scripted(call("leaf", input="go"), "Done.")
    place.worker("leaf", leaf, toolsets=FILESYSTEM)
    place.worker("main", main, toolsets=delegation_to("leaf"))
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    (place.folder / "leaf.txt").unlink()
    await forked(place, run, ForkRequest())
    again = await forked(place, place.started[-1], ForkRequest())
    assert again.layer is not None
    assert list(again.layer.recent.entries) == ["leaf.txt"]
    assert (len(leaf.requests), len(main.requests)) == (2, 2)
