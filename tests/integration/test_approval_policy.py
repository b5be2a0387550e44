"""When a person is asked and who may decide, until when, and what a refusal does to the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from temporalio.common import SearchAttributeKey
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.cli.commands.approvals import approvals, approve
from llm_do_temporal.cli.commands.grants import grants, revoke
from llm_do_temporal.cli.commands.runs import show
from llm_do_temporal.cli.options import Location
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.errors import (
    ApprovalTimedOut,
    BudgetExceeded,
    DecisionRefused,
    RunAborted,
    UsageError,
)
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.base import (
    PENDING_ATTRIBUTE,
    PENDING_MEMO,
    REVOKE_GRANT_SIGNAL,
    STATE_ATTRIBUTE,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.testing import call, scripted
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place, served

CALLS_RUN = {"worker.call": "pre_approved"}


async def test_strict_mode_refuses_what_would_ask_and_asks_nobody(place: Place) -> None:
    main = scripted([write_call(), call("sage", input="go"), call("list_files")], "Read only.")
    place.worker("sage", scripted())
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("sage")})
    run = await place.start("main", mode="strict")
    await place.client.result(run)
    assert tool_results(main, "write_file") == ["Strict mode: write_file requires approval"]
    assert tool_results(main, "sage") == ["Strict mode: sage requires approval"]
    assert main.requests[-1].results("list_files")[0].ok
    assert (await place.client.desk(run)).approvals == ()


async def test_strict_mode_lets_pre_approved_calls_run(place: Place) -> None:
    place.workshop(approvals={"mode": "strict", "rules": CALLS_RUN})
    main = scripted(call("sage", input="go"), "Done.")
    place.worker("sage", scripted("Wise."))
    place.worker("main", main, toolsets=delegation_to("sage"))
    await place.run("main")
    assert tool_results(main, "sage") == ["Wise."]


async def test_no_mode_unblocks_a_blocked_capability(place: Place) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": "blocked"}})
    for mode in ("approve_all", "interactive", "strict"):
        main = scripted(write_call(), "No.")
        place.worker(mode, main, toolsets=FILESYSTEM)
        await place.run(mode, mode=mode)
        blocked = "'write_file' is blocked: the workshop does not allow sandbox.write"
        assert tool_results(main, "write_file") == [blocked]


@pytest.mark.parametrize(
    ("sandbox", "asks"),
    [
        # writing asks unless the workshop says otherwise, reading does not
        ({}, ["write_file"]),
        ({"write_approval": False}, []),
        ({"read_approval": True}, ["read_file", "write_file"]),
        ({"read_approval": True, "write_approval": False}, ["read_file"]),
    ],
)
async def test_a_folder_says_whether_reading_and_writing_ask(
    place: Place, sandbox: dict[str, bool], asks: list[str]
) -> None:
    place.workshop(sandbox={"root": ".", **sandbox})
    place.write("notes.txt", "read me")
    main = scripted([call("read_file", path="/notes.txt"), write_call()], "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    waiting = await place.pending(run, len(asks)) if asks else []
    assert sorted(one.request.tool for one in waiting) == asks
    for one in waiting:
        await place.decide(run, id=one.id)
    await place.client.result(run)
    assert main.requests[-1].results("read_file")[0].ok
    assert main.requests[-1].results("write_file")[0].ok


async def test_sharing_asks_per_attachment_and_then_the_call_asks(place: Place) -> None:
    place.workshop(sandbox={"root": ".", "read_approval": True})
    place.write("one.txt", "1")
    place.write("two.txt", "22")
    main = scripted(call("sage", input="go", attachments=["one.txt", "/two.txt"]), "Done.")
    place.worker("sage", scripted("Wise."))
    place.worker("main", main, toolsets=delegation_to("sage"))
    run = await place.start("main")
    asked: list[tuple[str, Any]] = []
    for number in (1, 2, 3):
        (one,) = await place.pending(run)
        assert one.id == f"a{number}"
        asked += [(use.name, use.payload) for use in one.request.capabilities]
        await place.decide(run, id=one.id)
    await place.client.result(run)
    assert asked == [
        ("sandbox.read", {"path": "/one.txt", "bytes": 1, "target_worker": "sage"}),
        ("sandbox.read", {"path": "/two.txt", "bytes": 2, "target_worker": "sage"}),
        ("worker.call", {"worker": "sage", "input": "go", "attachments": ["/one.txt", "/two.txt"]}),
    ]


async def test_sharing_can_be_refused_and_then_nobody_is_asked_about_the_call(place: Place) -> None:
    place.workshop(sandbox={"root": ".", "read_approval": True})
    place.write("one.txt", "1")
    place.write("two.txt", "22")
    main = scripted(call("sage", input="go", attachments=["one.txt", "two.txt"]), "Alone.")
    place.worker("sage", scripted())
    place.worker("main", main, toolsets=delegation_to("sage"))
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="private", by="ada")
    await place.client.result(run)
    assert tool_results(main, "sage") == ["Rejected by ada: private"]
    assert len((await place.client.desk(run)).approvals) == 1


async def test_files_are_shared_without_a_question_where_nothing_or_false_says_so(place: Place) -> None:
    place.workshop(sandbox=None, approvals={"rules": CALLS_RUN})
    folders = {"silent": {"root": "a"}, "free": {"root": "b", "read_approval": False}}
    place.write("a/one.txt", "1")
    place.write("b/two.txt", "22")
    main = scripted(call("sage", input="go", attachments=["silent/one.txt", "free/two.txt"]), "Done.")
    place.worker("sage", scripted("Wise."))
    place.worker("main", main, toolsets=delegation_to("sage"), sandbox={"paths": folders})
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Done."
    assert tool_results(main, "sage") == ["Wise."]
    assert (await place.client.desk(run)).approvals == ()


REFUSED_FILES = [
    (["missing.txt"], "does not exist"),
    (["one.exe"], "has a suffix that worker 'sage' does not accept; accepted: .txt"),
    (["../one.txt"], "contains '..'"),
    (["one.txt", "one.txt"], "2 files attached, but worker 'sage' accepts at most 1"),
]


async def test_what_policy_refuses_asks_nobody(place: Place) -> None:
    place.workshop(sandbox={"root": ".", "read_approval": True})
    place.write("one.txt", "1")
    place.write("one.exe", "1")
    main = scripted([call("sage", input="go", attachments=attachments) for attachments, _ in REFUSED_FILES], "Alone.")
    place.worker("sage", scripted(), attachment_policy={"max_attachments": 1, "allowed_suffixes": [".txt"]})
    place.worker("main", main, toolsets=delegation_to("sage"))
    run = await place.start("main")
    await place.client.result(run)
    for (_, message), told in zip(REFUSED_FILES, tool_results(main, "sage"), strict=True):
        assert message in told
    assert (await place.client.desk(run)).approvals == ()


async def test_on_refusal_abort_ends_the_whole_run_through_every_level(place: Place) -> None:
    place.workshop(on_refusal="abort", approvals={"rules": CALLS_RUN})
    place.worker("leaf", scripted(write_call(), "Never."), toolsets=FILESYSTEM)
    place.worker("branch", scripted(call("leaf", input="go"), "Never."), toolsets=delegation_to("leaf"))
    place.worker("main", scripted(call("branch", input="go"), "Never."), toolsets=delegation_to("branch"))
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="stop it all", by="ada")
    with pytest.raises(RunAborted, match="Rejected by ada: stop it all"):
        await place.client.result(run)
    assert [node.status for node in (await place.client.view(run)).ordered] == ["failed"] * 3


async def test_an_aborted_run_stops_its_other_children(place: Place) -> None:
    place.workshop(on_refusal="abort", approvals={"rules": CALLS_RUN})
    place.worker("child", scripted(write_call("/child.txt"), "Never."), toolsets=FILESYSTEM)
    main = scripted([call("child", input="go"), write_call("/main.txt")], "Never.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")})
    run = await place.start("main")
    waiting = {one.request.worker: one.id for one in await place.pending(run, 2)}
    await place.decide(run, "reject", id=waiting["main"])
    with pytest.raises(RunAborted, match="Rejected by a person"):
        await place.client.result(run)
    statuses = {node.path: node.status for node in (await place.client.view(run)).ordered}
    assert statuses == {"main": "failed", "main/child-1": "cancelled"}


async def shown(place: Place, run: str) -> dict[str, Any]:
    """What a list of workflows shows of a run, with no worker service needed."""
    description = await place.client.temporal.get_workflow_handle(run).describe()
    attributes = description.typed_search_attributes
    memo = await description.memo()
    return {
        "state": attributes.get(SearchAttributeKey.for_keyword(STATE_ATTRIBUTE)),
        "pending": attributes.get(SearchAttributeKey.for_int(PENDING_ATTRIBUTE)),
        "worker": attributes.get(SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)),
        "waiting": [(one["id"], one["tool"], one["summary"]) for one in memo.get(PENDING_MEMO, [])],
    }


async def shown_with(place: Place, run: str, pending: int) -> dict[str, Any]:
    """The same, once it counts this many approvals."""
    async for event in place.client.follow(run).events():
        if event.type == "desk.changed" and (found := await shown(place, run))["pending"] == pending:
            return found
    raise AssertionError(f"the run ended before {pending} approvals were shown")


async def test_what_waits_can_be_seen_from_outside_while_it_waits_and_not_afterwards(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/secret.txt", "content")], "Done.")
    first, second = await place.pending(run, 2)
    parked_view = await shown_with(place, run, 2)
    assert (parked_view["state"], parked_view["pending"], parked_view["worker"]) == ("waiting", 2, "main")
    assert sorted(summary for _, _, summary in parked_view["waiting"]) == [
        "write_file /a.txt (2 bytes)",
        "write_file /secret.txt (7 bytes)",
    ]
    await place.decide(run, id=first.id)
    assert [one[0] for one in (await shown_with(place, run, 1))["waiting"]] == [second.id]
    await place.decide(run, id=second.id)
    await place.client.result(run)
    afterwards = await shown(place, run)
    assert (afterwards["state"], afterwards["pending"], afterwards["waiting"]) == ("closed", 0, [])


async def test_more_approvals_than_the_memo_lists_are_all_answered_in_the_end(place: Place) -> None:
    run, _ = await start_parked(place, [write_call(f"/{number}.txt") for number in range(25)], "Done.")
    waiting = await place.pending(run, 25)
    assert len((await shown_with(place, run, 25))["waiting"]) == 20
    for one in waiting:
        await place.signal(run, {"id": one.id, "decision": "approve"})
    await place.client.result(run)
    assert len(list(place.folder.glob("*.txt"))) == 25


T = TypeVar("T")


async def eventually(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again until there is an answer: what is listed lags behind what has happened."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await ask()):  # noqa: ASYNC110 - nobody tells when a list has caught up
            await asyncio.sleep(0.05)
        return found


async def seen(place: Place, run: str, wanted: Callable[[RunView], bool]) -> None:
    """Wait until the desk shows this of what is pending."""
    follower = place.client.follow(run)
    async for event in follower.events():
        if event.type == "desk.changed" and wanted(follower.view):
            return
    raise AssertionError("the run ended before that was shown")


async def voted(place: Place, run: str, *names: str) -> None:
    """Wait until the worker that asks has heard that these have agreed."""
    async for event in place.client.follow(run).events():
        if event.type == "approval.voted" and event.data["votes"] == list(names):
            return
    raise AssertionError("the run ended before they had agreed")


async def revoke_raw(place: Place, run: str, *payload: Any) -> None:
    await place.client.temporal.get_workflow_handle(run).signal(REVOKE_GRANT_SIGNAL, args=payload)


async def test_two_of_those_named_must_agree_and_nobody_to_their_own_run(place: Place) -> None:
    rule = {"approvers": ["ann", "bob", "eve"], "quorum": 2, "forbid_own": True}
    place.workshop(approvals={"rules": {"sandbox.write": rule}})
    main = scripted(write_call(), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    # Whoever starts a run cannot approve for those whom the workshop names.
    run = await place.start("main", started_by="eve", mode="approve_all")
    await place.pending(run)
    for who, why in (("carol", "may be decided by ann or bob or eve, not by 'carol'"), ("eve", "somebody other than")):
        with pytest.raises(DecisionRefused, match=why):
            await place.decide(run, by=who)
    await place.signal(run, {"decision": "approve", "by": "eve"})
    first = await place.decide(run, by="ann")
    assert (first.verdict, [vote.by for vote in first.votes]) == (None, ["ann"])
    better = {"path": "/a.txt", "content": "better"}
    await place.decide(run, "modify", args=better, by="bob")
    with pytest.raises(DecisionRefused, match=r"'bob' has changed the arguments; to agree, send a `modify`"):
        await place.decide(run, by="ann")
    await voted(place, run, "bob")

    (open_one,) = await place.client.approvals(run)
    assert (open_one.is_open, open_one.args, [vote.by for vote in open_one.votes]) == (True, better, ["bob"])
    (entry,) = await eventually(lambda: _inbox(place, run, votes=1))
    assert (entry.id, entry.quorum, entry.approvers, entry.started_by) == ("a1", 2, ("ann", "bob", "eve"), "eve")

    last = await place.decide(run, "modify", args=better, by="ann")
    assert last.verdict is not None
    assert (last.verdict.decision, last.verdict.by) == ("modify", "bob, ann")
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "better"
    assert "bob, ann changed this call before it ran" in tool_results(main, "write_file")[0]
    (ignored,) = (await place.client.desk(run)).ignored
    assert "needs somebody other than who started the run" in ignored.reason
    (question,) = await place.client.questions(run)
    assert question.verdict == last.verdict
    assert question.as_json()["verdict"]["by"] == "bob, ann"


async def _inbox(place: Place, run: str, *, votes: int) -> list[Any]:
    # That of all runs has the oldest alone where tests before this one have left many that wait.
    return [one for one in (await place.client.inbox(run)).entries if one.votes == votes]


async def test_what_nobody_decides_in_time_is_refused_and_the_run_goes_on(place: Place) -> None:
    place.workshop(approvals={"timeout": 1})
    main = scripted(write_call(), "Pity.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Pity."
    assert tool_results(main, "write_file") == ["Rejected by timeout: nobody decided within 1 second"]
    assert not (place.folder / "a.txt").exists()
    (question,) = await place.client.questions(run)
    assert question.verdict is not None
    assert (question.verdict.by, question.verdict.door, question.is_open) == ("timeout", "timer", False)
    assert question.deadline is not None
    assert question.verdict.at >= question.deadline


async def test_on_timeout_fail_ends_the_worker_that_asked_and_its_caller_is_told(place: Place) -> None:
    rules = {"worker.call": "pre_approved", "sandbox.write": {"timeout": 1, "on_timeout": "fail"}}
    place.workshop(approvals={"rules": rules})
    place.worker("child", scripted(write_call("/child.txt"), "Never."), toolsets=FILESYSTEM)
    main = scripted(call("child", input="go"), write_call("/main.txt"), "Never.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")})
    run = await place.start("main")
    with pytest.raises(ApprovalTimedOut, match=r"nobody decided within 1 second: write_file /main.txt"):
        await place.client.result(run)
    (heard,) = tool_results(main, "child")
    assert heard.startswith("worker 'child' failed: nobody decided within 1 second: write_file /child.txt")


async def test_a_limit_ends_the_run_where_nobody_decides_in_time_to_go_on(place: Place) -> None:
    rule = {"approvers": ["ann"], "timeout": 1}
    place.workshop(limits={"turns": 1}, approvals={"rules": {"limit.exceed": rule}})
    place.worker("main", scripted(call("list_files"), "Never."), toolsets=FILESYSTEM)
    run = await place.start("main")
    with pytest.raises(BudgetExceeded, match="its limit is 1 turn; nobody decided within 1 second"):
        await place.client.result(run)
    (question,) = await place.client.questions(run)
    assert (question.request.tool, question.request.approvers) == ("go_on", ("ann",))


async def test_people_are_reminded_of_what_still_waits(place: Place) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": {"remind_after": 1, "timeout": "72h"}}})
    run, _ = await start_parked(place, write_call(), "Done.")
    await seen(place, run, lambda view: bool(view.pending) and view.pending[0].reminded_at is not None)
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    (approval,) = (await place.client.desk(run)).approvals
    assert approval.reminded_at is not None
    assert approval.request.remind_at is not None
    assert approval.reminded_at >= approval.request.remind_at


@pytest.mark.thorough
async def test_a_revoked_decision_is_asked_for_again(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), write_call(), write_call("/b.txt"), write_call(), "Done.")
    nonsense: list[tuple[tuple[Any, ...], str]] = [
        ((), "malformed revocation: it is one object, and 0 values were sent"),
        (({},), "malformed revocation: id: Field required"),
        ((["a1"],), "malformed revocation: "),
        (({"id": ""},), "malformed revocation: id: "),
        (({"id": "a1", "bye": 1},), "malformed revocation: bye: Extra inputs"),
        # There is nothing to take back yet, so what comes later is not taken back.
        (({"id": "a1"},), "there is no grant of approval 'a1' to revoke"),
    ]
    for payload, _ in nonsense:
        await revoke_raw(place, run, *payload)
    await place.decide(run, by="ann", remember="session")
    await place.pending_is(run, "a3")
    (grant,) = await place.client.grants(run)
    assert (grant.approval, grant.tool, grant.verdict.by, grant.summary) == (
        "a1",
        "write_file",
        "ann",
        "write_file /a.txt (2 bytes)",
    )
    with pytest.raises(UsageError, match=f"run '{run}' has no grant of approval 'a3'"):
        await place.client.revoke(run, "a3")
    await place.client.revoke(run, "a1", "bob")
    assert await place.client.grants(run) == []
    await place.decide(run, id="a3", remember="session")
    # The identical call is asked about again.
    await place.pending_is(run, "a4")
    await place.decide(run, id="a4")
    await place.client.result(run)
    ignored = (await place.client.desk(run)).ignored
    assert len(ignored) == len(nonsense)
    for note, (_, reason) in zip(ignored, nonsense, strict=True):
        assert reason in note.reason
    doors = [question.verdict.door for question in await place.client.questions(run) if question.verdict]
    assert doors == ["update", "grant", "update", "update"]
    assert [grant.approval for grant in await place.client.grants(run)] == ["a3"]
    with pytest.raises(UsageError, match="has ended: completed; its grants ended with it"):
        await place.client.revoke(run, "a3")


async def test_the_commands_tell_who_agreed_and_take_back_what_is_remembered(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": {"quorum": 2, "timeout": "72h"}}})
    run, _ = await start_parked(place, write_call(), write_call("/b.txt"), "Never.")
    temporal = place.client.temporal
    where = Location(
        address=temporal.service_client.config.target_host, namespace=temporal.namespace, workshop=place.folder
    )

    async def typed(command: Awaitable[int]) -> str:
        assert await command == 0
        printed = capsys.readouterr()
        return printed.out + printed.err

    assert "nothing is remembered for run" in await typed(grants(run, location=where))
    assert "a1 of main still waits; 1 of 2 people have agreed" in await typed(
        approve(run, "a1", remember=True, location=where)
    )
    await seen(place, run, lambda view: view.pending[0].votes == 1)
    assert "in 2d" in (listed := await typed(approvals(run, location=where)))
    assert "1 of 2" in listed
    assert "pending, 1 of 2 have agreed, until " in await typed(show(run, location=where))
    await place.decide(run, by="bob", remember="session")
    await place.pending_is(run, "a2")
    both = f"{login_name()}, bob"
    assert f"approve   {both}" in await typed(grants(run, location=where))
    (told_as_json,) = json.loads(await typed(grants(run, as_json=True, location=where)))
    assert (told_as_json["id"], told_as_json["by"]) == ("a1", both)
    assert "revoked: the decision of a1" in await typed(revoke(run, "a1", location=where))
    assert await place.client.grants(run) == []
    await place.client.cancel(run)


async def test_everything_is_readable_and_can_be_decided_while_no_worker_service_runs(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    async with served(server, tmp_path) as place:
        place.workshop(approvals={"rules": {"sandbox.write": {"timeout": "72h"}}})
        run, _ = await start_parked(place, write_call(), write_call(), "Done.")
    client = place.client
    (entry,) = await eventually(lambda: _inbox(place, run, votes=0))
    (question,) = await client.questions(run)
    assert (entry.id, entry.summary, entry.tool) == ("a1", question.request.summary, "write_file")
    assert entry.deadline is not None
    assert entry.deadline == question.deadline
    assert question.is_open
    # Both are taken up in this order when a service is back.
    await place.signal(run, {"id": "a1", "decision": "approve", "remember": "session"})
    await revoke_raw(place, run, {"id": "a1"})
    assert await client.grants(run) == []

    async with build_worker(server.client, place.folder, ServiceSettings(task_queue=place.queue)):
        await place.pending_is(run, "a2")
        assert await client.grants(run) == []
        await place.decide(run, id="a2")
        assert (await client.result(run)).output == "Done."
        await place.replay()


async def test_the_open_questions_of_a_run_that_was_terminated_are_open_no_more(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Never.")
    await place.client.temporal.get_workflow_handle(run).terminate()
    (question,) = await place.client.questions(run)
    assert (question.verdict, question.withdrawn, question.is_open) == (None, True, False)


async def test_a_question_with_a_time_that_no_clock_knows_is_dropped(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    (asked,) = await place.pending(run)
    request = asked.request.model_dump(mode="json")
    handle = place.client.temporal.get_workflow_handle(run)
    for deadline in ("2026-01-01T00:00:00", "soon", 10**30):
        await handle.signal("request_approval", request | {"key": "9", "deadline": deadline})
    await handle.signal("request_approval", request | {"key": "9", "deadline": "9999-12-31T23:59:59Z"})
    await place.pending_is(run, "a1", "a2")
    await place.decide(run, id="a1")
    assert (await place.client.result(run)).output == "Done."
