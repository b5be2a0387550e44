"""A call that was agreed to, and that is asked about again because something had changed: every reader can see so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.testing import call, scripted
from tests.support.doors.http_client import person
from tests.support.runs.delegation import delegation_to
from tests.support.runs.fixtures import Typed
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

CHANGED = "'/a.txt' has changed since it was shown; a1 was approved, and its call was not carried out"


@pytest.mark.extension("export")
async def test_every_reader_sees_that_an_approved_call_was_not_carried_out_and_why(place: Place, typed: Typed) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    place.write("a.txt", "somebody else's\n")
    code, _, said = await typed("approve", run, "a1")
    assert (code, "a1 was not carried out: " in said, CHANGED in said) == (3, True, True), said
    assert f"approvals {run} a2" in said
    first, second = await place.client.questions(run)
    assert (first.again, second.request.again, second.is_open) == ("a2", "a1", True)
    assert CHANGED in second.request.reason
    assert "-somebody else's" in (second.request.diff or "")

    assert "not carried out: a2 asks again, and says why" in (await typed("approvals", run, "a1"))[2]
    _, shown, said = await typed("approvals", run, "a2")
    assert ("a new file" in shown, "-somebody else's" in shown, "asked again" in shown) == (False, True, True)
    assert "not carried out, asked again" in (await typed("show", run))[1]
    told = json.loads((await typed("show", run, "--json"))[1])
    assert told["approvals"][0]["carried_out"] is False
    assert CHANGED in "".join((await typed("logs", run))[1:])
    asked = (await person(place).ask("GET", f"/runs/{run}/questions")).body
    assert [(one["asks_again"], one["asked_again"]) for one in asked] == [("a1", "")]

    assert (await typed("approve", run, "a2"))[0] == 0
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text("utf-8") == "hi"
    assert "carried_out" not in json.loads((await typed("show", run, "--json"))[1])["approvals"][1]


async def test_of_many_that_were_approved_at_once_those_carried_out_are_counted(place: Place, typed: Typed) -> None:
    place.worker("main", scripted([write_call(f"/{n}.txt") for n in "abc"], "Done."), toolsets=FILESYSTEM)
    run = await place.start("main")
    await place.pending(run, 3)
    place.write("b.txt", "somebody else's\n")
    code, out, said = await typed("approve", run, "--all", "--yes", "--json")
    assert (code, "3 decided: 2 taken, 1 not carried out and asked again" in said) == (3, True), said
    assert sorted(one["outcome"] for one in json.loads(out)) == ["again", "taken", "taken"]
    assert "'/b.txt' has changed since it was shown" in said
    await place.pending_is(run, "a4")
    await place.decide(run, id="a4")
    await place.client.result(run)


def appeared(place: Place) -> None:
    place.write("run.sh", "echo other\n")


CALLS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a command": (call("shell", command="sh run.sh"), {"shell": {"rules": [{"pattern": "sh"}]}}, "'/run.sh'"),
    "an edit": (call("edit_file", path="/run.sh", old_text="echo", new_text="printf"), FILESYSTEM, "'/run.sh'"),
    "a new file": (write_call("/run.sh"), FILESYSTEM, "'/run.sh'"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", CALLS)
async def test_a_worker_that_was_called_asks_again_too(place: Place, typed: Typed, kind: str) -> None:
    asking, tools, what = CALLS[kind]
    place.write("run.sh", "echo one\n")
    place.worker("leaf", scripted(asking, "Leaf."), toolsets=tools)
    place.worker("main", scripted(call("leaf", input="go"), "Done."), toolsets=delegation_to("leaf"))
    run = await place.start("main")
    await place.pending_is(run, "a1")
    await place.decide(run, id="a1")
    await place.pending_is(run, "a2")
    appeared(place)
    code, _, said = await typed("approve", run, "a2")
    assert (code, f"{what} has changed since it was shown; a2 was approved" in said) == (3, True), said
    asked = {one.id: one for one in await place.client.questions(run)}
    assert [asked[one].again for one in ("a1", "a2", "a3")] == ["", "a3", ""]
    assert asked["a3"].request.again == "a2"
    await place.decide(run, "reject", id="a3", note="no")
    await place.client.result(run)


CHANGED_CALLS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "a file": (write_call(), FILESYSTEM, {"path": "/b.txt", "content": "hi"}),
    "an edit": (
        call("edit_file", path="/c.txt", old_text="c", new_text="x"),
        FILESYSTEM,
        {"path": "/b.txt", "old_text": "b", "new_text": "x"},
    ),
    "a command": (
        call("shell", command="cat c.txt"),
        {"shell": {"rules": [{"pattern": "cat"}]}},
        {"command": "cat b.txt"},
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", CHANGED_CALLS)
async def test_a_change_to_a_file_that_was_not_shown_is_told_as_asked_again(
    place: Place, typed: Typed, kind: str
) -> None:
    asking, tools, args = CHANGED_CALLS[kind]
    place.write("b.txt", "b\n")
    place.write("c.txt", "c\n")
    run, _ = await start_parked(place, asking, "Done.", toolsets=tools)
    code, _, said = await typed("modify", run, "a1", "--args", json.dumps(args))
    why = "the changed call was not shown in full; a1 was changed and approved, and its call was not carried out"
    assert (code, "it goes on" in said, "a2 asks again with" in said) == (3, False, True), said
    assert f"asked again: {why}" in said
    assert f"approvals {run} a2" in said
    first, second = await place.client.questions(run)
    assert (first.again, second.request.again, second.is_open) == ("a2", "a1", True)
    assert why in second.request.reason
    assert "not carried out: a2 asks again, and says why" in (await typed("approvals", run, "a1"))[2]
    assert why in (await typed("approvals", run, "a2"))[1]
    assert (place.folder / "b.txt").read_text("utf-8") == "b\n"
    assert (await typed("approve", run, "a2"))[0] == 0
    await place.client.result(run)


async def test_a_change_that_others_must_agree_to_is_told_as_asked_again(place: Place, typed: Typed) -> None:
    place.workshop(approvals={"rules": {"sandbox.write.definitions": {"approvers": ["ann"]}}})
    run, _ = await start_parked(place, write_call(), "Done.")
    code, _, said = await typed("modify", run, "a1", "--args", json.dumps({"path": "/tools.py", "content": "hi"}))
    assert (code, "the changed call needs the agreement of other people; a1 was changed" in said) == (3, True), said
    await place.client.cancel(run)


async def test_a_change_that_is_carried_out_goes_on(place: Place, typed: Typed) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    code, _, said = await typed("modify", run, "a1", "--args", json.dumps({"path": "/new.txt", "content": "hi"}))
    assert (code, "it goes on with" in said, "not carried out" in said) == (0, True, False), said
    await place.client.result(run)
    assert [one.again for one in await place.client.questions(run)] == [""]


async def test_nobody_waits_for_a_call_that_is_carried_out(place: Place, typed: Typed) -> None:
    run, _ = await start_parked(place, write_call(), write_call("/b.txt"), "Done.")
    code, _, said = await typed("approve", run, "a1")
    assert (code, "not carried out" in said) == (0, False)
    await place.pending_is(run, "a2")
    assert [one.again for one in await place.client.questions(run)] == ["", ""]
    await place.client.cancel(run)


async def test_a_question_marks_no_approval_of_another_invocation(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), write_call("/b.txt"), "Done.")
    await place.decide(run, id="a1")
    (second,) = await place.pending(run)
    forged = second.request.model_copy(update={"invocation": "somebody", "again": "a1", "key": "9"})
    await place.client.temporal.get_workflow_handle(run).signal("request_approval", forged)
    await place.pending_is(run, "a2", "a3")
    assert [one.again for one in await place.client.questions(run)] == ["", "", ""]
    await place.client.cancel(run)
