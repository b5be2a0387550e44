"""Decisions that are held before they take effect, on a real server: taken back, replaced, and left to their time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient, Question, connections
from llm_do_temporal.client.record.facts import Story
from llm_do_temporal.errors import DecisionRefused, RunCancelled
from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.messages.base import DECIDE_SIGNAL, DECIDE_UPDATE
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

ADA: dict[str, Any] = {"by": "ada", "hold": 60}
UNDO = {"id": "a1", "decision": None, "by": "ada"}
NONSENSE: list[tuple[Any, ...]] = [(), (UNDO, UNDO), (None,), ({},), ({"id": "a1"},), ({**UNDO, "idd": "a1"},)]


def undo(approval: str = "a1", by: str = "ada") -> Decision:
    return Decision(id=approval, decision=None, by=by)


async def only(place: Place, run: str) -> Question:
    (question,) = await place.client.questions(run)
    return question


async def test_a_decision_can_be_taken_back_and_another_one_taken(place: Place) -> None:
    run, main = await start_parked(place, write_call(), "Done.")
    taken = await place.decide(run, id="a1", **ADA)
    assert taken.held is not None
    assert taken.verdict is None
    seen = await only(place, run)
    assert seen.held == taken.held
    assert not seen.is_open
    assert await place.client.approvals(run) == []
    with pytest.raises(DecisionRefused, match=r"already decided: approve by ada at .*; it takes effect at "):
        await place.decide(run, id="a1", by="bob")
    with pytest.raises(DecisionRefused, match=r"already decided: approve by ada at .*; it takes effect at "):
        await place.client.decide(run, undo(by="bob"))
    again = await place.client.decide(run, undo())
    assert again is not None
    await place.pending_is(run, "a1")
    with pytest.raises(DecisionRefused, match="is not decided; there is nothing to take back"):
        await place.client.decide(run, undo())
    await place.decide(run, "reject", id="a1", note="rather not", by="bob")
    await place.client.result(run)
    assert not (place.folder / "a.txt").exists()
    assert tool_results(main, "write_file") == ["Rejected by bob: rather not"]
    story = Story(run)
    await place.client.view(run, tap=story.take)
    assert [(one.id, one.decision, one.by) for one in story.taken_back] == [("a1", "approve", "ada")]
    with pytest.raises(DecisionRefused, match="has ended"):
        await place.client.decide(run, undo())


async def test_a_decision_that_is_left_alone_takes_effect_by_itself(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    await place.decide(run, id="a1", by="ada", hold=1)
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "hi"
    verdict = (await only(place, run)).verdict
    assert verdict is not None
    assert verdict.effective_at is not None
    assert verdict.effective_at > verdict.at


async def test_decisions_on_questions_of_others_are_held_taken_back_and_replaced_too(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted([write_call("/1.txt"), write_call("/2.txt")], "Done."), toolsets=FILESYSTEM)
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    wanted = {one.request.args["path"]: one.id for one in await place.pending(run, 2)}
    await place.decide(run, id=wanted["/1.txt"], **ADA)
    await place.decide(run, "reject", id=wanted["/2.txt"], note="no", **ADA)
    assert await place.client.approvals(run) == []
    assert {one.held is not None for one in await place.client.questions(run)} == {True}
    await place.client.decide(run, undo(wanted["/1.txt"]))
    assert [one.id for one in await place.client.approvals(run)] == [wanted["/1.txt"]]
    await place.decide(run, id=wanted["/1.txt"], by="bob")
    replaced = await place.decide(run, "reject", id=wanted["/2.txt"], note="still no", by="ada")
    assert replaced.verdict is not None
    assert replaced.held is None
    with pytest.raises(DecisionRefused, match="was already decided: reject by ada"):
        await place.client.decide(run, undo(wanted["/2.txt"]))
    await place.client.result(run)
    assert [(place.folder / name).exists() for name in ("1.txt", "2.txt")] == [True, False]


@pytest.mark.thorough
async def test_a_run_that_is_cancelled_does_nothing_that_was_held(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Never.")
    await place.decide(run, id="a1", **ADA)
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    assert not (place.folder / "a.txt").exists()
    seen = await only(place, run)
    assert seen.withdrawn
    assert seen.verdict is None


async def test_nonsense_about_undo_is_refused_or_noted_and_the_run_goes_on(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    await place.decide(run, id="a1", **ADA)
    handle = place.client.temporal.get_workflow_handle(run)
    for payload in NONSENSE:
        await handle.signal(DECIDE_SIGNAL, args=payload)
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(DECIDE_UPDATE, args=payload)
    for hold in (10**9, -1, "10"):
        await place.signal(run, {"id": "a1", "decision": "approve", "hold": hold})
    ignored = (await place.client.desk(run)).ignored
    assert len(ignored) == len(NONSENSE) + 3
    assert all("malformed" in note.reason for note in ignored)
    await handle.signal(DECIDE_SIGNAL, UNDO)
    await place.pending_is(run, "a1")
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."


@pytest.mark.thorough
async def test_a_hold_outlives_the_worker_service(server: WorkflowEnvironment, tmp_path: Path) -> None:
    queue = f"test-{uuid4().hex}"
    place = Place(tmp_path, LlmDoClient(server.client, task_queue=queue), queue)
    place.workshop()
    settings = ServiceSettings(task_queue=queue)
    async with build_worker(server.client, place.folder, settings):
        run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
        wanted = {one.request.args["path"]: one.id for one in await place.pending(run, 2)}
        await place.decide(run, id=wanted["/b.txt"], **ADA)
        await place.decide(run, id=wanted["/a.txt"], by="ada", hold=15)
    assert [one.held is not None for one in await place.client.questions(run)] == [True, True]
    assert not (place.folder / "a.txt").exists()
    await place.client.temporal.get_workflow_handle(run).signal(DECIDE_SIGNAL, undo(wanted["/b.txt"]))
    async with build_worker(server.client, place.folder, settings):
        await place.completed(run, "write /a.txt")
        await place.decide(run, "reject", id=wanted["/b.txt"], note="no")
        await place.client.result(run)
        await place.replay()
    assert not (place.folder / "b.txt").exists()


@pytest.mark.parametrize("later", ["reject", None])
async def test_a_decision_that_reaches_the_run_late_replaces_no_newer_one(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str | None
) -> None:
    """An update that nobody has answered stays at the server, which gives it to the next service behind all signals."""
    queue = f"test-{uuid4().hex}"
    place = Place(tmp_path, LlmDoClient(server.client, task_queue=queue), queue)
    place.workshop()
    settings = ServiceSettings(task_queue=queue)
    async with build_worker(server.client, place.folder, settings):
        run, _ = await start_parked(place, write_call("/a.txt"), "Done.")
        await place.pending_is(run, "a1")
    monkeypatch.setattr(connections, "UPDATE_SECONDS", 1)
    approve = Decision.model_validate({"decision": "approve", "id": "a1", **ADA})
    assert await place.client.decide(run, approve) is None
    newer = {"id": "a1", "decision": later, "by": "ada", **({"note": "no"} if later else {})}
    await place.client.temporal.get_workflow_handle(run).signal(DECIDE_SIGNAL, newer)
    monkeypatch.undo()
    async with build_worker(server.client, place.folder, settings):
        if later is None:
            await place.pending_is(run, "a1")
            await place.decide(run, "reject", id="a1", note="no", by="bob")
        assert (await place.client.result(run)).output == "Done."
        await place.replay()
    assert not (place.folder / "a.txt").exists()
    assert (await only(place, run)).verdict is not None
