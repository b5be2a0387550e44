"""When a person is asked, when nobody is, and what a refusal does to the run."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.common import SearchAttributeKey

from llm_do_temporal.errors import RunAborted, RunCancelled
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, STATE_ATTRIBUTE, WORKER_ATTRIBUTE
from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import delegation_to, generic_delegation, tool_results
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

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


@pytest.mark.parametrize("mode", ["approve_all", "interactive", "strict"])
async def test_no_mode_unblocks_a_blocked_capability(place: Place, mode: str) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": "blocked"}})
    main = scripted(write_call(), "No.")
    place.worker("main", main, toolsets=FILESYSTEM)
    await place.run("main", mode=mode)
    assert tool_results(main, "write_file") == ["'write_file' is blocked: the workshop does not allow sandbox.write"]


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


@pytest.mark.parametrize(
    ("attachments", "message"),
    [
        (["missing.txt"], "does not exist"),
        (["one.exe"], "has a suffix that worker 'sage' does not accept; accepted: .txt"),
        (["../one.txt"], "contains '..'"),
        (["one.txt", "one.txt"], "2 files attached, but worker 'sage' accepts at most 1"),
    ],
)
async def test_what_policy_refuses_asks_nobody(place: Place, attachments: list[str], message: str) -> None:
    place.workshop(sandbox={"root": ".", "read_approval": True})
    place.write("one.txt", "1")
    place.write("one.exe", "1")
    main = scripted(call("sage", input="go", attachments=attachments), "Alone.")
    place.worker("sage", scripted(), attachment_policy={"max_attachments": 1, "allowed_suffixes": [".txt"]})
    place.worker("main", main, toolsets=delegation_to("sage"))
    run = await place.start("main")
    await place.client.result(run)
    assert message in tool_results(main, "sage")[0]
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


async def test_an_effect_that_fails_does_not_abort_where_refusals_do(place: Place) -> None:
    place.workshop(on_refusal="abort")
    main = scripted(call("read_file", path="/missing.txt"), "Not there.")
    place.worker("main", main, toolsets=FILESYSTEM)
    assert (await place.run("main")).output == "Not there."


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


async def test_a_cancelled_run_shows_nothing_as_waiting(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Never.")
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    afterwards = await shown(place, run)
    assert (afterwards["pending"], afterwards["waiting"]) == (0, [])


async def test_more_approvals_than_the_memo_lists_are_all_answered_in_the_end(place: Place) -> None:
    run, _ = await start_parked(place, [write_call(f"/{number}.txt") for number in range(25)], "Done.")
    waiting = await place.pending(run, 25)
    assert len((await shown_with(place, run, 25))["waiting"]) == 20
    for one in waiting:
        await place.signal(run, {"id": one.id, "decision": "approve"})
    await place.client.result(run)
    assert len(list(place.folder.glob("*.txt"))) == 25


async def test_calling_itself_is_allowed_where_the_list_says_so(place: Place) -> None:
    main = scripted(call("worker_call", worker_name="main", input_data="again"), "Twice.")
    place.workshop(max_depth=1, approvals={"rules": CALLS_RUN})
    place.worker("main", main, toolsets=generic_delegation("main"))
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Twice."
    assert len((await place.client.view(run)).nodes) == 2
