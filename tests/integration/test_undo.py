"""Decisions that are held before they take effect, on a real server: taken back, replaced, and left to their time."""

from __future__ import annotations

import re
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
from tests.support.people.browser import Form, Page
from tests.support.people.signed_in import page_with, signed_in_browser
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


def undo_form(page: Page) -> Form:
    (form,) = [form for form in page.forms if form.action.partition("?")[0].endswith("/undo")]
    return form


async def test_the_next_question_offers_to_take_the_last_answer_back(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    await place.pending(run, 2)
    ada = await signed_in_browser(place, undo_seconds=60)
    first = await page_with(ada, f"/runs/{run}/approvals/a1?run={run}", "1 of 2")
    second = await ada.send(first, first.form(decision="approve"), onward="yes")
    assert second.address.partition("?")[0].endswith("/approvals/a2")
    assert "Approved by ada: write_file" in second.text
    assert re.search(r"takes effect in (\d\d? s|1 min)", second.text)
    form = undo_form(second)
    again = await ada.send(second, form)
    assert again.address.partition("?")[0].endswith("/approvals/a1")
    assert f"run={run}" in again.address
    assert "tally=0.0.0" in again.address
    assert again.form(decision="reject")
    # Another tab, in which nothing has changed.
    twice = await ada.send(second, form)
    assert twice.status == 409
    assert "Approval 'a1' is not decided; there is nothing to take back." in twice.text
    third = await ada.send(again, again.form(decision="reject"), note="rather not", onward="yes")
    assert third.address.partition("?")[0].endswith("/approvals/a2")
    assert "Rejected by ada" in third.text
    await place.client.cancel(run)


async def test_the_last_answer_of_all_can_be_taken_back_from_the_inbox(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place, undo_seconds=60)
    page = await ada.open(f"/runs/{run}/approvals/a1?run={run}")
    inbox = await ada.send(page, page.form(decision="approve"), onward="yes")
    assert inbox.address.partition("?")[0].endswith("8234/")
    again = await ada.send(inbox, undo_form(inbox))
    assert again.address.partition("?")[0].endswith("/approvals/a1")
    assert not (place.folder / "a.txt").exists()
    await place.client.cancel(run)


async def test_who_did_not_decide_is_told_and_cannot_undo(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    address = f"/runs/{run}/approvals/a1"
    ada, bob = await signed_in_browser(place, undo_seconds=60), await signed_in_browser(place, "bob")
    open_still = await bob.open(address)
    page = await ada.open(address)
    held = await ada.send(page, page.form(decision="approve"))
    assert "Approved by ada," in held.text
    assert "It takes effect at" in held.text
    seen = await bob.open(address)
    assert "Approved by ada," in seen.text
    assert not [form for form in seen.forms if "/undo" in form.action]
    late = await bob.send(open_still, open_still.form(decision="reject"), note="no")
    assert late.status == 409
    assert "was already decided: approve by ada" in late.text
    refused = await bob.send(seen, Form(f"{address}/undo", "post", seen_fields(open_still)))
    assert refused.status == 409
    assert "was already decided: approve by ada" in refused.text
    assert undo_form(held)
    await place.client.cancel(run)
    assert not (place.folder / "a.txt").exists()


def seen_fields(page: Page) -> dict[str, str]:
    """The fields that every form of this person has."""
    return {"csrf": page.form(decision="approve").fields["csrf"]}


async def test_a_decision_about_many_is_taken_back_question_by_question(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Done.")
    await place.pending(run, 2)
    ada = await signed_in_browser(place, undo_seconds=60)
    table = await page_with(ada, f"/runs/{run}/approvals", "/a.txt", "/b.txt")
    review = await ada.send(table, table.form(of=run), what="approve-all")
    outcome = await ada.send(review, review.form(decision="approve"))
    assert "2 of 2 approved" in outcome.text
    assert "The last of it takes effect" in outcome.text
    await place.decide(run, id="a1", by="ada")
    undone = await ada.send(outcome, undo_form(outcome))
    assert "1 of 2 taken back: they wait again." in undone.text
    assert "1 of 2 approved" in undone.text
    assert "not taken back: approved by ada" in undone.text
    assert [one.id for one in await place.client.approvals(run)] == ["a2"]
    await place.client.cancel(run)
