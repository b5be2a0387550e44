"""The signal `decide` and the update `decide_now`: what they take, and what becomes of nonsense."""

from __future__ import annotations

import io
from datetime import datetime
from itertools import product
from typing import Any, cast

import pytest
from rich.console import Console
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RawValue

from llm_do_temporal.cli.reports.show import read_record, record_json, render_record
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.desk.state import KEPT_IGNORED
from llm_do_temporal.errors import DecisionRefused, RunCancelled, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.base import (
    DECIDE_SIGNAL,
    DECIDE_UPDATE,
    DELIVER_DECISION_SIGNAL,
    REQUEST_APPROVAL_SIGNAL,
    REVOKE_GRANT_SIGNAL,
    WITHDRAW_APPROVALS_SIGNAL,
)
from llm_do_temporal.testing import call, scripted
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

NONSENSE: list[tuple[tuple[Any, ...], str]] = [
    # not one object
    ((), "it is one object, and 0 values were sent"),
    (({"decision": "approve"}, {"decision": "approve"}), "it is one object, and 2 values were sent"),
    ((None,), "malformed decision: "),
    (("approve",), "malformed decision: "),
    ((["a1", "approve"],), "malformed decision: "),
    ((42,), "malformed decision: "),
    ((b"\x00\xff",), "malformed decision: "),
    # an object, but not a decision
    (({},), "malformed decision: decision: Field required"),
    (({"decision": "maybe"},), "malformed decision: decision: "),
    (({"decision": "approve", "idd": "a1"},), "malformed decision: idd: Extra inputs are not permitted"),
    (({"decision": "approve", "id": 1},), "malformed decision: id: "),
    (({"decision": "modify", "args": "x"},), "malformed decision: args: "),
    (({"decision": "approve", "note": "x" * 1_000_000, "bye": 1},), "malformed decision: bye: "),
    (({"x" * 1_000_000: 1},), "malformed decision: "),
    # a decision, but not one that can be taken
    (({"id": "a7", "decision": "approve"},), "there is no approval 'a7'; pending: a1"),
    (({"id": "a1", "decision": "modify"},), "a `modify` needs the new arguments"),
    (({"id": "a1", "decision": "modify", "args": {"path": "../x", "content": ""}},), "policy refuses"),
]


async def test_nonsense_signals_are_noted_and_ignored_and_the_run_goes_on(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    for payload, _ in NONSENSE:
        await place.signal(run, *payload)
    ignored = (await place.client.desk(run)).ignored
    assert len(ignored) == len(NONSENSE)
    for note, (payload, message) in zip(ignored, NONSENSE, strict=True):
        assert message in note.reason, str(payload)[:100]
        assert len(note.reason) <= 500
    await place.signal(run, {"decision": "approve"})
    assert (await place.client.result(run)).output == "Done."


async def test_signals_that_are_not_even_json_do_not_stop_the_run(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    broken = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"decision": "appr'))
    await place.signal(run, broken)
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."


async def test_nonsense_updates_are_refused_and_the_run_goes_on(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    handle = place.client.temporal.get_workflow_handle(run)
    before = (await handle.describe()).history_length
    for payload, _ in NONSENSE:
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(DECIDE_UPDATE, args=payload)
    assert (await handle.describe()).history_length == before
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."


async def test_the_id_may_be_left_out_while_exactly_one_is_pending(place: Place) -> None:
    main = scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    first, second = await place.pending(run, 2)
    with pytest.raises(DecisionRefused, match=r"say which approval: 2 are pending \(a1, a2\)"):
        await place.decide(run)
    await place.decide(run, id=second.id)
    taken = await place.decide(run)
    assert taken.id == first.id
    await place.client.result(run)


async def test_a_decision_without_an_id_that_arrives_twice_leaves_the_next_question_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = await start_parked(place, write_call("/a.txt"), write_call("/a.txt"), "Done.")
    client = place.client
    update: Any = vars(WorkflowHandle)["execute_update"]

    async def answered_late(handle: WorkflowHandle[Any, Any], *args: Any, **more: Any) -> None:
        """Update for whose answer nobody waits any more; the same question is asked again meanwhile."""
        await update(handle, *args, **more)
        await place.pending_is(run, "a2")
        raise TimeoutError

    monkeypatch.setattr(WorkflowHandle, "execute_update", answered_late)
    assert await client.decide(run, Decision(decision=DecisionKind.APPROVE)) is None
    monkeypatch.undo()
    (ignored,) = (await client.desk(run)).ignored
    assert ignored.reason.startswith("approval 'a1' was already decided: approve")
    await place.pending_is(run, "a2")
    await place.decide(run, "reject", note="once is enough")
    assert (await client.result(run)).output == "Done."
    with pytest.raises(DecisionRefused, match=r"has ended: completed; nothing waits for a decision"):
        await place.decide(run)


async def test_a_second_decision_is_told_who_decided_and_when(place: Place) -> None:
    main = scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    await place.pending(run, 2)
    taken = await place.decide(run, "reject", id="a1", by="ada")
    assert taken.verdict is not None
    when = taken.verdict.at.isoformat(timespec="seconds")
    with pytest.raises(DecisionRefused) as refused:
        await place.decide(run, id="a1", by="bob")
    assert str(refused.value) == f"approval 'a1' was already decided: reject by ada at {when}"
    with pytest.raises(DecisionRefused, match="there is no approval 'a9'; pending: a2"):
        await place.decide(run, id="a9")
    await place.decide(run, id="a2")
    await place.client.result(run)


@pytest.mark.parametrize("answer", ["approve", "reject"])
async def test_who_is_late_is_told_who_was_first_also_once_the_run_has_ended(place: Place, answer: str) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    await place.decide(run, answer, id="a1", by="ada")
    await place.client.result(run)
    words = f"approval 'a1' was already decided: {answer} by ada at .*; run '{run}' has ended: completed"
    with pytest.raises(DecisionRefused, match=words):
        await place.decide(run, id="a1", by="bob")
    with pytest.raises(DecisionRefused, match=f"^run '{run}' has ended: completed; nothing waits for a decision"):
        await place.decide(run, id="a2", by="bob")


async def test_a_decision_for_an_unknown_run_is_a_mistake_of_the_person_who_sent_it(place: Place) -> None:
    with pytest.raises(UsageError, match="there is no run 'nobody'"):
        await place.decide("nobody", id="a1")


async def test_internal_signals_with_nonsense_do_not_stop_anybody(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
    main = scripted([call("child", input="go"), write_call("/main.txt")], "Done.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")})
    run = await place.start("main")
    await place.pending(run, 2)
    temporal, child = place.client.temporal, f"{run}/main/child-1"
    payloads: list[list[Any]] = [["x"], [{}], [None], [], [{}, {}]]
    names = (REQUEST_APPROVAL_SIGNAL, WITHDRAW_APPROVALS_SIGNAL, DELIVER_DECISION_SIGNAL, "no_such_signal")
    for name, target in product(names, (run, child)):
        for payload in payloads:
            await temporal.get_workflow_handle(target).signal(name, args=payload)
    for waiting in ("a1", "a2"):
        await place.decide(run, id=waiting)
    assert (await place.client.result(run)).output == "Done."


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("ending", "said"), [("cancel", "cancelled"), ("terminate", "terminated")])
async def test_the_questions_of_an_invocation_that_has_ended_are_withdrawn(
    place: Place, ending: str, said: str
) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted(write_call("/child.txt"), "Never."), toolsets=FILESYSTEM)
    main = scripted([call("child", input="go"), write_call("/main.txt")], "Done.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")})
    run = await place.start("main")
    waiting = {one.request.worker: one.id for one in await place.pending(run, 2)}
    child = place.client.temporal.get_workflow_handle(f"{run}/main/child-1")
    await (child.cancel() if ending == "cancel" else child.terminate())
    await place.pending_is(run, waiting["main"])
    with pytest.raises(DecisionRefused, match="is no longer needed: its worker has stopped"):
        await place.decide(run, id=waiting["child"])
    await place.signal(run, {"id": waiting["child"], "decision": "approve"})
    await place.decide(run, id=waiting["main"])
    await place.client.result(run)
    assert tool_results(main, "child") == [f"worker 'child' failed: it was {said}"]
    assert not (place.folder / "child.txt").exists()


async def test_a_decision_that_reaches_nobody_is_noted(place: Place) -> None:
    run, _ = await start_parked(place, write_call("/main.txt"), "Done.")
    (asked,) = await place.pending(run)
    lost = asked.request.model_copy(update={"invocation": f"{run}/main/gone-1"})
    await place.client.temporal.get_workflow_handle(run).signal(REQUEST_APPROVAL_SIGNAL, lost)
    await place.pending_is(run, "a1", "a2")
    await place.decide(run, id="a2")
    await place.decide(run, id="a1")
    await place.client.result(run)
    assert {note.reason for note in (await place.client.desk(run)).ignored} == {"the worker that asked 'a2' has ended"}


async def test_cancelling_a_run_that_waits_ends_it_and_leaves_nothing_pending(place: Place) -> None:
    run, _ = await start_parked(place, [write_call("/a.txt"), write_call("/b.txt")], "Never.")
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    assert await place.client.approvals(run) == []
    assert {node.status for node in (await place.client.view(run)).ordered} == {"cancelled"}
    assert not (place.folder / "a.txt").exists()


WRONG: list[tuple[tuple[Any, ...], str]] = [
    (({"id": "a1", "decision": "reject", "reason": "no"},), "reason"),
    (({"id": "a1", "decision": "Approve"},), "decision"),
    (({"id": "a1", "decision": "approve", "sure": True},), "sure"),
    (("approve",), "decision"),
    ((), "decision"),
    (({"decision": "approve"}, {"decision": "approve"}), "decision"),
    (({"id": "a7", "decision": "approve"},), "a7"),
    (({"id": "\x1b[31ma1\u202e", "decision": "approve"},), "approval"),
]


@pytest.mark.extension("export")
async def test_an_ignored_signal_is_shown_where_people_look(place: Place) -> None:
    from llm_do_temporal.extensions.export.report import log_lines

    run, _ = await start_parked(place, write_call(), "Done.")
    for payload, _ in WRONG:
        await place.signal(run, *payload)
    ada = await signed_in_browser(place)
    await page_with(ada, f"/runs/{run}", f"{len(WRONG)} signals were ignored")
    await place.decide(run)
    await place.client.result(run)
    view, _, story = await read_record(place.client, run)
    (node,) = view.ordered
    assert [words in reason for (_, words), reason in zip(WRONG, node.ignored, strict=True)] == [True] * len(WRONG)
    (shown,) = record_json(await place.client.status(run), view, [], story)["invocations"]
    assert shown["ignored"] == node.ignored
    console = Console(width=400, file=io.StringIO())
    console.print(render_record(await place.client.status(run), view, [], datetime(2030, 1, 1), story))
    text = cast("io.StringIO", console.file).getvalue()
    assert "ignored signals" in text
    assert "\x1b[31m" not in text
    follower = Follower(place.client.temporal, run, wait=False)
    lines = [line async for event in follower.events() for line in log_lines(event)]
    assert sum("a signal was ignored: " in line for line in lines) == len(WRONG)


async def test_a_signal_that_no_reader_can_read_harms_nobody(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    handle = place.client.temporal.get_workflow_handle(run)
    unreadable = b"[" * 2_000 + b"]" * 2_000, b'{"id":' * 5_000 + b"1" + b"}" * 5_000, b"\xff", b"{"
    for data, name in product(unreadable, (DECIDE_SIGNAL, REVOKE_GRANT_SIGNAL, "nonsense")):
        await handle.signal(name, RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data)))
    (asked,) = await place.client.approvals(run)
    assert asked.id == "a1"
    assert run in {one.run for one in (await place.client.all_approvals()).questions}
    await place.decide(run)
    await place.client.result(run)


async def test_an_update_that_is_no_decision_is_refused_in_our_words(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    handle = place.client.temporal.get_workflow_handle(run)
    payloads: list[Any] = [{"decision": "Approve", "id": 7}, "approve", None, [1]]
    for payload in payloads:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update(DECIDE_UPDATE, payload)
        assert "malformed" in str(caught.value.cause)
        assert "pydantic" not in str(caught.value.cause)
    await place.decide(run)
    await place.client.result(run)


@pytest.mark.thorough
async def test_a_flood_of_wrong_signals_fills_no_history(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    for number in range(KEPT_IGNORED + 20):
        await place.signal(run, {"id": f"a{number + 2}", "decision": "approve"})
    await place.decide(run)
    await place.client.result(run)
    view, _, _ = await read_record(place.client, run)
    assert len(view.ordered[0].ignored) == KEPT_IGNORED
