"""Decisions: approve, reject, modify, remember; what the model is told and what is done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llm_do_temporal.client import open_questions
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.testing import Call, call, scripted
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place


@pytest.mark.parametrize("door", ["signal", "update"])
async def test_an_approved_call_is_carried_out(place: Place, door: str) -> None:
    run, main = await start_parked(place, write_call(), "Done.")
    assert not (place.folder / "a.txt").exists()
    if door == "signal":
        await place.signal(run, {"id": "a1", "decision": "approve", "by": "ada"})
    else:
        taken = await place.decide(run, id="a1", by="ada")
        assert taken.verdict is not None
        assert (taken.verdict.by, taken.verdict.door) == ("ada", "update")
    assert (await place.client.result(run)).output == "Done."
    assert (place.folder / "a.txt").read_text() == "hi"
    assert tool_results(main, "write_file") == ["Wrote /a.txt (2 bytes)."]


REJECTIONS: list[tuple[dict[str, str], str]] = [
    ({"note": "not today", "by": "ada"}, "Rejected by ada: not today"),
    ({"note": "not today"}, "Rejected by a person: not today"),
    ({"by": "ada"}, "Rejected by ada"),
    ({}, "Rejected by a person"),
]


async def test_a_rejection_is_told_to_the_model_and_nothing_is_written(place: Place) -> None:
    run, main = await start_parked(place, *(write_call() for _ in REJECTIONS), "Pity.")
    for number, (decision, _) in enumerate(REJECTIONS, 1):
        await place.pending_is(run, f"a{number}")
        await place.decide(run, "reject", **decision)
    assert (await place.client.result(run)).output == "Pity."
    assert tool_results(main, "write_file") == [expected for _, expected in REJECTIONS]
    assert not (place.folder / "a.txt").exists()


async def test_modified_arguments_are_the_ones_that_are_used(place: Place) -> None:
    run, main = await start_parked(place, write_call(), "Done.")
    await place.decide(run, "modify", args={"path": "/b.txt", "content": "better"}, by="ada")
    await place.client.result(run)
    assert (place.folder / "b.txt").read_text() == "better"
    assert not (place.folder / "a.txt").exists()
    (answer,) = tool_results(main, "write_file")
    assert answer.startswith("Wrote /b.txt (6 bytes).")
    assert "ada changed this call before it ran" in answer
    assert 'It ran with: {"content":"better","path":"/b.txt"}' in answer


REFUSED_CHANGES: list[tuple[dict[str, Any] | None, str]] = [
    ({"path": "/../out.txt", "content": ""}, "policy refuses the new arguments: '/../out.txt' contains '..'"),
    ({"path": "/closed/x.txt", "content": ""}, "policy refuses the new arguments: '/closed/x.txt' is outside"),
    ({"path": "/open/x.txt"}, "the new arguments are not valid: 'content' is a required property"),
    ({"path": "/open/x.txt", "content": "", "mode": 7}, "the new arguments are not valid: Additional properties"),
    (None, "a `modify` needs the new arguments in `args`"),
]


async def test_a_change_that_policy_or_schema_refuses_is_refused_before_anything_is_written(place: Place) -> None:
    main = scripted(write_call("/open/a.txt"), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM, sandbox={"restrict": "/open"})
    run = await place.start("main")
    await place.pending(run)
    for args, message in REFUSED_CHANGES:
        with pytest.raises(DecisionRefused) as refused:
            await place.decide(run, "modify", args=args)
        assert message in str(refused.value)
        assert len(await place.pending(run)) == 1
    await place.decide(run)
    await place.client.result(run)
    assert [str(path.relative_to(place.folder)) for path in place.folder.rglob("*.txt")] == ["open/a.txt"]


async def test_a_changed_delegation_is_judged_again_from_the_start(place: Place) -> None:
    main = scripted(call("worker_call", worker_name="one", input_data="go"), "Done.")
    place.worker("one", scripted("1"))
    place.worker("main", main, toolsets={"delegation": {"allow_workers": ["one"]}})
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "modify", args={"worker_name": "main", "input_data": "go"})
    await place.client.result(run)
    assert tool_results(main, "worker_call") == ["worker 'main' may not call 'main'; it may call 'one'"]


async def test_an_approval_shows_the_call_and_what_it_would_change(place: Place) -> None:
    place.write("a.txt", "old\n")
    run, _ = await start_parked(place, write_call(content="new\n"), "Done.")
    (one,) = await place.pending(run)
    request = one.request
    assert (one.id, request.tool, request.path, request.worker) == ("a1", "write_file", "main", "main")
    assert request.args == {"path": "/a.txt", "content": "new\n"}
    assert [use.name for use in request.capabilities] == ["sandbox.write"]
    assert request.diff is not None
    assert "-old\n+new\n" in request.diff
    assert request.reason == "sandbox.write needs approval"
    await place.decide(run)
    await place.client.result(run)


async def test_an_edit_that_cannot_work_asks_nobody(place: Place) -> None:
    place.write("a.txt", "old\n")
    main = scripted(call("edit_file", path="/a.txt", old_text="absent", new_text="x"), "Sorry.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    await place.client.result(run)
    assert "does not occur in '/a.txt'" in tool_results(main, "edit_file")[0]
    assert (await place.client.desk(run)).approvals == ()


async def test_a_remembered_approval_answers_the_identical_call_of_a_child(place: Place) -> None:
    child = scripted(Call("write_file", {"content": "hi", "path": "/a.txt"}), "Written again.")
    place.worker("child", child, toolsets=FILESYSTEM)
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    main = scripted(write_call(), call("child", input="go"), "Done.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")})
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, remember="session", by="ada")
    assert (await place.client.result(run)).output == "Done."
    assert child.requests[-1].results("write_file")[0].ok
    first, second = (await place.client.desk(run)).approvals
    assert first.verdict is not None
    assert second.verdict is not None
    assert (first.verdict.door, second.verdict.door, second.verdict.by) == ("update", "grant", "ada")
    # What was remembered was for that run: another one asks about the same call again.
    other = await place.start("child")
    (asked,) = await place.pending(other)
    assert asked.request.args == first.request.args
    assert asked.verdict is None


async def test_a_remembered_rejection_refuses_the_identical_call_and_asks_for_another(place: Place) -> None:
    run, main = await start_parked(place, write_call(), write_call(), write_call("/b.txt"), "Done.")
    await place.decide(run, "reject", remember="session", note="never", by="ada")
    await place.pending_is(run, "a3")
    (other,) = await place.client.approvals(run)
    assert other.request.args["path"] == "/b.txt"
    await place.decide(run)
    await place.client.result(run)
    assert tool_results(main, "write_file")[:2] == ["Rejected by ada: never"] * 2
    assert (place.folder / "b.txt").exists()
    assert not (place.folder / "a.txt").exists()


async def test_all_approvals_of_a_turn_are_pending_together_while_its_other_tools_go_on(place: Place) -> None:
    place.write("notes.txt", "read me")
    turn = [write_call("/a.txt"), call("read_file", path="/notes.txt"), write_call("/b.txt"), write_call("/c.txt")]
    main = scripted(turn, "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    waiting = await place.pending(run, 3)
    assert {one.request.args["path"] for one in waiting} == {"/a.txt", "/b.txt", "/c.txt"}
    await place.completed(run, "read /notes.txt")
    for one in reversed(waiting):
        await place.decide(run, id=one.id)
    await place.client.result(run)
    assert len(tool_results(main, "write_file")) == 3


async def test_of_two_decisions_at_once_exactly_one_wins(place: Place) -> None:
    run, main = await start_parked(place, write_call(), "Done.")
    answers = await asyncio.gather(
        place.decide(run, id="a1", by="ada"),
        place.decide(run, "reject", id="a1", by="bob"),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, DecisionRefused)]
    assert len(refused) == 1
    await place.client.result(run)
    winner = "bob" if isinstance(answers[0], DecisionRefused) else "ada"
    assert f"by {winner} at " in str(refused[0])
    assert (place.folder / "a.txt").exists() is (winner == "ada")
    assert tool_results(main, "write_file")[0].startswith("Wrote" if winner == "ada" else "Rejected by bob")


async def listed(place: Place, run: str) -> None:
    """Wait until the server lists the run's question: it does so a moment after it has it."""
    while True:
        if (await place.client.inbox(run)).entries:
            return
        await asyncio.sleep(0.05)


async def test_of_more_runs_than_are_read_at_once_the_inbox_has_the_oldest(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_questions, "MOST_RUNS", 1)
    monkeypatch.setattr(open_questions, "FEWEST_RUNS", 1)
    older, _ = await start_parked(place, write_call(), "Done.")
    newer, _ = await start_parked(place, write_call(), "Done.")
    for run in (older, newer):
        await listed(place, run)
    # Those of other tests may be older still.
    contents = await place.client.inbox()
    assert len({entry.run for entry in contents.entries}) == 1
    assert newer not in {entry.run for entry in contents.entries}
    assert contents.further >= 1
    assert {older, newer} <= {entry.run for entry in (await place.client.inbox(whole=True)).entries}
