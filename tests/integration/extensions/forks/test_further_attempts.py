"""What a batch has left over is gone on with: answers are not paid for again, and no effect happens twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.errors import RunCancelled
from llm_do_temporal.extensions.forks.client_attempts import prepare_attempt
from llm_do_temporal.policy.values import REPEAT
from llm_do_temporal.testing import Turn, call, scripted
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import delegation_to
from tests.support.runs.place import Place

MOST = 6
"""Turns that an item may take."""
TOOLS = """\
import time
from pathlib import Path

HERE = Path(__file__).parent


def note(text: str) -> str:
    with (HERE / "notes.txt").open("a") as notes:
        notes.write(text + "\\n")
    return f"noted {text}"


def hold(text: str) -> str:
    with (HERE / "notes.txt").open("a") as notes:
        notes.write(text + "\\n")
    while not (HERE / "free").exists():
        time.sleep(0.02)
    return f"held {text}"


def mend(text: str) -> str:
    with (HERE / "notes.txt").open("a") as notes:
        notes.write(text + "\\n")
    if not (HERE / "free").exists():
        raise ValueError("it is broken")
    return "mended"
"""


def told(messages: list[ModelMessage]) -> str:
    return json.dumps(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))


def item_in(messages: list[ModelMessage]) -> str:
    return told(messages).split("item ")[1][:3]


def turn_in(messages: list[ModelMessage]) -> int:
    """Number of the turn that is asked, from 1."""
    return sum(isinstance(message, ModelResponse) for message in messages) + 1


class Counted:
    """A model that counts what it is asked, by item and turn; `play` answers."""

    def __init__(self, play: Callable[[str, int], Turn]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._play = play

    async def __call__(self, messages: list[ModelMessage]) -> Turn:
        asked = item_in(messages), turn_in(messages)
        self.asked.append(asked)
        return self._play(*asked)


def notes(place: Place) -> list[str]:
    file = place.folder / "notes.txt"
    return sorted(file.read_text().split()) if file.exists() else []


async def wait_until(found: Callable[[], bool]) -> None:
    while not found():  # noqa: ASYNC110 - a thread of the worker service sets no event
        await asyncio.sleep(0.02)


async def stop(place: Place, run: str) -> None:
    """Cancel the run, and wait for its end."""
    await place.client.cancel(run)
    try:
        await place.client.result(run)
    except RunCancelled:
        return
    raise AssertionError("it was not cancelled")


TAKEN = " that happened are taken over; --no-reuse does all of it again"


async def again(place: Place, run: str, **changes: Any) -> tuple[str, list[str]]:
    """Start what the run has left over, and return the new run."""
    left = (await place.client.unfinished(run)).model_copy(update=changes)
    start, lines = await prepare_attempt(place.client.temporal, run, left)
    second = await place.client.start(start)
    place.started.append(second)
    return second, lines


async def outputs(place: Place, run: str) -> dict[str, Any]:
    view: RunView = await place.client.view(run)
    return {item.name: item.output for item in view.items.values()}


def noting(place: Place, name: str, model: Any, **toolsets: Any) -> None:
    """A worker with the functions of TOOLS."""
    place.write("tools.py", TOOLS)
    place.workshop(approvals={"mode": "approve_all"}, sandbox={"root": "files"})
    (place.folder / "files").mkdir(exist_ok=True)
    place.worker(name, scripted(*[model] * MOST), toolsets={"custom": {"note": {}, "hold": {}, "mend": {}}, **toolsets})


async def test_an_item_that_was_under_way_goes_on_where_it_was(place: Place) -> None:
    never = asyncio.Event()

    async def stuck(messages: list[ModelMessage]) -> Turn:
        answer = await counted(messages)
        if item_in(messages) != "n00" and turn_in(messages) == 3 and not never.is_set():
            await never.wait()
        return answer

    def play(item: str, turn: int) -> Turn:
        return {1: call("note", text=item), 2: call("write_file", path=f"/{item}.txt", content="x")}.get(turn, "Done.")

    counted = Counted(play)
    noting(place, "main", stuck, filesystem={})
    run = await place.start("main", prompt="", batch=batch_of("n00", "n01", "n02"))
    await wait_until(lambda: {("n01", 3), ("n02", 3)} <= set(counted.asked))
    async for event in place.client.follow(run).events():
        if event.type == "item.completed":
            break
    await stop(place, run)
    before = len(counted.asked)
    never.set()
    second, lines = await again(place, run)
    result = await place.client.result(second)
    assert lines == [f"4 turns and 4 calls{TAKEN}"]
    assert sorted(counted.asked[before:]) == [("n01", 3), ("n02", 3)]
    assert notes(place) == ["n00", "n01", "n02"]
    assert await outputs(place, second) == {"n01": "Done.", "n02": "Done."}
    assert (result.usage.requests, result.usage.saved and result.usage.saved.requests) == (2, 4)
    assert (await place.client.status(run)).status == "cancelled"


@pytest.mark.thorough
async def test_a_call_that_failed_and_what_came_of_it_is_tried_again(place: Place) -> None:
    def play(item: str, turn: int) -> Turn:
        if turn == 1:
            return call("note", text=item)
        if turn == 2:
            return call("mend", text=f"mend-{item}")
        raise AssertionError("it is still broken")

    broken, fine = Counted(play), Counted(lambda item, turn: "Mended.")
    noting(place, "main", broken)
    run = await place.start("main", prompt="", batch=batch_of("n00"))
    await place.client.result(run)
    assert broken.asked == [("n00", 1), ("n00", 2), ("n00", 3)]
    (place.folder / "free").touch()
    place.script("main", scripted(*[fine] * MOST))
    second, lines = await again(place, run)
    await place.client.result(second)
    # The note is there; what failed is made again, and only what follows from that is asked.
    assert lines == [f"2 turns and 1 call{TAKEN}"]
    assert notes(place) == ["mend-n00", "mend-n00", "n00"]
    assert fine.asked == [("n00", 3)]
    assert await outputs(place, second) == {"n00": "Mended."}


async def test_an_answer_by_which_an_item_failed_is_asked_again(place: Place) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    bad = Counted(lambda item, turn: call("note", text=item) if turn == 1 else "prose, for ever")
    good = Counted(lambda item, turn: call("final_result", n=7))
    noting(place, "main", bad)
    place.worker("main", scripted(*[bad] * MOST), toolsets={"custom": {"note": {}}}, output_schema=schema)
    run = await place.start("main", prompt="", batch=batch_of("n00"))
    await place.client.result(run)
    place.script("main", scripted(*[good] * MOST))
    second, lines = await again(place, run)
    await place.client.result(second)
    assert lines == [f"1 turn and 1 call{TAKEN}"]
    assert good.asked == [("n00", 2)]
    assert notes(place) == ["n00"]
    assert await outputs(place, second) == {"n00": {"n": 7}}


@pytest.mark.thorough
async def test_what_may_have_happened_is_asked_about_and_kept_in_mind_by_later_attempts(place: Place) -> None:
    counted = Counted(lambda item, turn: call("hold", text=item) if turn == 1 else "Done.")
    noting(place, "main", counted)
    place.workshop(approvals={"rules": {"python.call": "pre_approved"}}, sandbox={"root": "files"})
    run = await place.start("main", prompt="", batch=batch_of("n00"))
    await wait_until(lambda: notes(place) == ["n00"])
    await stop(place, run)
    (place.folder / "free").touch()
    for number in (1, 2):
        run, lines = await again(place, run)
        (question,) = await place.pending(run)
        asked = "1 call may have happened: you are asked before anything of that is done again"
        assert lines == [f"1 turn and 0 calls{TAKEN}", asked]
        assert [use.name for use in question.request.capabilities] == [REPEAT]
        if number == 1:
            await stop(place, run)
    assert notes(place) == ["n00"]
    await place.decide(run, "approve")
    await place.client.result(run)
    assert notes(place) == ["n00", "n00"]
    assert counted.asked == [("n00", 1), ("n00", 2)]


async def test_twins_are_not_taken_for_one_another(place: Place) -> None:
    """Two items of the same content: what one has done is not done for the other."""
    gate = asyncio.Event()

    async def answer(messages: list[ModelMessage]) -> Turn:
        if turn_in(messages) == 1:
            begun.append(1)
            if len(begun) == 2 and not gate.is_set():
                await gate.wait()
            return call("note", text="twin")
        further.append(1)
        if not gate.is_set():
            await gate.wait()
        return "Done."

    begun: list[int] = []
    further: list[int] = []
    noting(place, "main", answer)
    run = await place.start("main", prompt="", batch=batch_of("twn", "twn", concurrency=2))
    # A note that stands in the file may not have been told of yet; whoever is asked further has been told.
    await wait_until(lambda: bool(further) and len(begun) == 2)
    assert notes(place) == ["twin"]
    await stop(place, run)
    gate.set()
    second, lines = await again(place, run)
    await place.client.result(second)
    assert lines == [f"1 turn and 1 call{TAKEN}"]
    assert notes(place) == ["twin", "twin"]


async def test_a_delegation_begins_again_and_goes_on_from_its_own_turns(place: Place) -> None:
    never = asyncio.Event()

    async def caller(messages: list[ModelMessage]) -> Turn:
        answer = await above(messages)
        if turn_in(messages) == 2 and not never.is_set():
            await never.wait()
        return answer

    above = Counted(lambda item, turn: call("child", input=f"item {item}") if turn == 1 else "Done.")
    below = Counted(lambda item, turn: call("note", text=item) if turn == 1 else "Noted.")
    noting(place, "child", below)
    place.worker("main", scripted(*[caller] * MOST), toolsets=delegation_to("child"))
    run = await place.start("main", prompt="", batch=batch_of("n00"))
    await wait_until(lambda: ("n00", 2) in above.asked)
    await stop(place, run)
    never.set()
    second, _ = await again(place, run)
    await place.client.result(second)
    assert below.asked == [("n00", 1), ("n00", 2)]
    assert above.asked == [("n00", 1), ("n00", 2), ("n00", 2)]
    assert notes(place) == ["n00"]
