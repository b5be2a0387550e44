"""Reviews in real runs while somebody else is at work: files that move, answers that do not fit, decisions twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from llm_do_temporal.client import Question
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.extensions.review.commit import Disk
from llm_do_temporal.extensions.review.messages import shown_review
from llm_do_temporal.testing import call, scripted
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place
from tests.support.workshops.layered import seen


async def reviewed(place: Place, **files: str) -> tuple[str, Question]:
    """Start a run that writes these files in its layer, and wait for its review."""
    (place.folder / "data").mkdir()
    for name in ("a", "b"):
        (place.folder / f"data/{name}.txt").write_text(f"{name}\n")
    place.workshop(sandbox={"root": "data"})
    writes = [call("write_file", path=f"/{name}.txt", content=content) for name, content in files.items()]
    place.worker("main", scripted(writes, "Done.", "So be it."), review="changes", toolsets={"filesystem": {}})
    run = await place.start("main")
    (question,) = await place.pending(run)
    return run, question


def changed(place: Place) -> None:
    (place.folder / "data/a.txt").write_text("somebody else's\n")


def removed(place: Place) -> None:
    (place.folder / "data/a.txt").unlink()


def linked(place: Place) -> None:
    (place.folder / "data/a.txt").unlink()
    (place.folder / "data/a.txt").symlink_to("/etc/hostname")


def made_a_folder(place: Place) -> None:
    (place.folder / "data/a.txt").unlink()
    (place.folder / "data/a.txt").mkdir()


def made_writable_for_nobody(place: Place) -> None:
    (place.folder / "data/a.txt").chmod(0o400)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("move", [changed, removed, linked, made_a_folder, made_writable_for_nobody])
async def test_a_file_that_moves_during_its_review_is_asked_about_again_and_kept(
    place: Place, move: Callable[[Place], None]
) -> None:
    run, first = await reviewed(place, a="mine\n", b="mine, too\n")
    move(place)
    theirs = seen(place.folder / "data")
    await place.decide(run, id=first.id)
    (second,) = await place.pending(run)
    assert seen(place.folder / "data") == theirs, "nothing is made where not all of it can be"
    shown = shown_review(second.request)
    assert shown is not None
    assert shown.section.conflicts == ("data/a.txt",)
    await place.decide(run, id=second.id)
    await place.client.result(run)
    after = seen(place.folder / "data")
    assert after["b.txt"][2] == b"mine, too\n"
    assert {**after, "b.txt": theirs["b.txt"]} == theirs, "a conflict is accepted by name only"


def _answer(question: Question, **more: Any) -> dict[str, Any]:
    return {**question.args, **more}


WRONG: dict[str, dict[str, Any]] = {
    "another review's digest": {"changes": "0" * 64},
    "no digest": {"changes": "x"},
    "a path outside": {"accept": ["../../etc/passwd"]},
    "a path that did not change": {"accept": ["data/c.txt"]},
    "a hunk that is none": {"accept": [], "hunks": {"data/a.txt": ["0" * 16]}},
    "a blob that is not there": {"edits": {"data/a.txt": "0" * 64}},
    "an edit of another file": {"edits": {"workshop.yaml": "0" * 64}},
    "a key that is none": {"definitions": ["workshop.yaml"]},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WRONG)
async def test_an_answer_that_does_not_fit_is_refused_or_asked_again_and_changes_nothing(
    place: Place, name: str
) -> None:
    run, question = await reviewed(place, a="mine\n")
    before = seen(place.folder / "data")
    args = _answer(question, **WRONG[name])
    try:
        await place.decide(run, "modify", id=question.id, args=args)
    except LlmDoError:
        again = question
    else:
        (again,) = await place.pending(run)
        assert again.id != question.id
    assert seen(place.folder / "data") == before
    await place.decide(run, id=again.id)
    await place.client.result(run)
    assert (place.folder / "data/a.txt").read_text() == "mine\n"


async def test_a_decision_that_comes_twice_commits_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, rename = threading.Event(), Disk.rename

    def held(disk: Disk, folder: int, name: str, new_folder: int, new_name: str) -> None:
        """A run that has ended takes no signal: nothing is committed before all were sent."""
        sent.wait(PATIENCE_SECONDS)
        rename(disk, folder, name, new_folder, new_name)

    run, question = await reviewed(place, a="mine\n")
    monkeypatch.setattr(Disk, "rename", held)
    for _ in range(3):
        await place.signal(run, {"id": question.id, "decision": "approve", "by": "ada"})
    sent.set()
    await place.client.result(run)
    assert (place.folder / "data/a.txt").read_text() == "mine\n"
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for history in await place.histories()
        for event in history.events
    ]
    assert scheduled.count("commit_changes") == 1
