"""Files that somebody else changes while a review waits: a conflict stays one until people have decided on it."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.client import Question
from llm_do_temporal.extensions.review.messages import shown_review
from llm_do_temporal.testing import call, scripted
from tests.support.extensions.review.reviewed import section
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place


async def _conflict(place: Place, *more: Any) -> tuple[str, Question]:
    """Start a run that changes a.txt and b.txt, of which somebody else has changed a.txt by its first decision."""
    place.write("a.txt", "a\n")
    place.write("b.txt", "b\n")
    writes = [write_call("/a.txt", "mine\n"), write_call("/b.txt", "mine, too\n")]
    place.worker("main", scripted(writes, *more, "done", "done"), review="changes", toolsets=FILESYSTEM)
    run = await place.start("main")
    (first,) = await place.pending(run)
    place.write("a.txt", "theirs\n")
    await place.decide(run, id=first.id)
    (second,) = await place.pending(run)
    return run, second


def conflicts(question: Question) -> tuple[str, ...]:
    shown = shown_review(question.request)
    assert shown is not None
    return shown.section.conflicts


async def test_a_conflict_stays_one_when_another_file_moves_too(place: Place) -> None:
    run, second = await _conflict(place)
    place.write("b.txt", "theirs, too\n")
    await place.decide(run, id=second.id)
    (third,) = await place.pending(run)

    assert conflicts(third) == ("a.txt", "b.txt")
    await place.decide(run, id=third.id)
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "theirs\n"
    assert (place.folder / "b.txt").read_text() == "theirs, too\n"


@pytest.mark.parametrize("accept", [[], ["b.txt"]])
async def test_a_conflict_that_is_kept_is_one_in_the_next_review(place: Place, accept: list[str]) -> None:
    run, second = await _conflict(place, "done", write_call("/c.txt"))
    await place.decide(run, "modify", id=second.id, args={**second.args, "accept": accept, "rest": "keep"})
    (third,) = await place.pending(run)

    assert conflicts(third) == ("a.txt",)
    await place.decide(run, id=third.id)
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "theirs\n"
    assert (place.folder / "c.txt").exists()


async def test_a_new_worker_that_is_kept_is_one_in_the_next_review(place: Place) -> None:
    made = call("worker_create", name="helper", description="Helps.", instructions="Help.")
    toolsets: dict[str, Any] = {**FILESYSTEM, "delegation": {"worker_create": {}}}
    main = scripted([made, write_call()], "done", write_call("/b.txt"), "done")
    place.worker("main", main, toolsets=toolsets, review="changes")
    run = await place.start("main")
    for question in await place.pending(run, 2):
        args: dict[str, Any] = {**question.args, "accept": [], "rest": "keep"}
        await place.decide(run, "modify", id=question.id, args=args)
    again = {section(question).value: question for question in await place.pending(run, 2)}

    assert sorted(again) == ["ordinary", "workers"]
    for question in again.values():
        await place.decide(run, id=question.id)
    await place.client.result(run)
    assert len(list(place.folder.rglob("helper.worker"))) == 1


@pytest.mark.parametrize("wrong", [{"changes": "0" * 64}, {"accept": ["nothing.txt"]}])
async def test_an_answer_that_cannot_be_used_and_is_remembered_is_asked_for_once_more(
    place: Place, wrong: dict[str, Any]
) -> None:
    place.worker("main", scripted(write_call(), "done"), review="changes", toolsets=FILESYSTEM)
    run = await place.start("main")
    (first,) = await place.pending(run)
    await place.decide(run, "modify", id=first.id, args={**first.args, **wrong}, remember="session")
    await place.pending_is(run, "a2")
    await place.decide(run, id="a2")
    await place.client.result(run)
    assert (place.folder / "a.txt").exists()
