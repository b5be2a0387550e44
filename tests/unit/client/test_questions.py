"""What a history tells of a desk that it does not tell from its beginning, or not here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.client.history.questions import Question, read_desk
from llm_do_temporal.desk import state as desk
from llm_do_temporal.desk.grants import with_revocation
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.activities import RECORD_AT_DESK, DeskRecord, HeldNews
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DeliverDecisionInput,
    DeliverVotesInput,
    DeskState,
    Grant,
    Remember,
    RequestApprovalInput,
    RevokeGrantInput,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.storage.external_storage import REFERENCE_TYPE
from tests.support.runs.histories import marker

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
VERDICT = Verdict.model_validate(
    {"decision": "approve", "args": {}, "at": NOON, "door": "signal", "remember": "session", "by": "ann"}
)


def at(event: HistoryEvent, minutes: float) -> HistoryEvent:
    event.event_time.FromDatetime(NOON + timedelta(minutes=minutes))
    return event


def payloads(value: Any) -> Payloads:
    return Payloads(payloads=pydantic_data_converter.payload_converter.to_payloads([value]))


def started(given: Any, *, before: str = "") -> HistoryEvent:
    event = HistoryEvent()
    event.workflow_execution_started_event_attributes.input.CopyFrom(
        Payloads(payloads=[given]) if isinstance(given, Payload) else payloads(given)
    )
    event.workflow_execution_started_event_attributes.continued_execution_run_id = before
    return event


def signaled(name: str, value: Any) -> HistoryEvent:
    event = HistoryEvent()
    event.workflow_execution_signaled_event_attributes.signal_name = name
    event.workflow_execution_signaled_event_attributes.input.CopyFrom(payloads(value))
    return event


def told(name: str, value: Any) -> HistoryEvent:
    event = HistoryEvent()
    event.signal_external_workflow_execution_initiated_event_attributes.signal_name = name
    event.signal_external_workflow_execution_initiated_event_attributes.input.CopyFrom(payloads(value))
    return event


def recorded(**news: Any) -> HistoryEvent:
    """The marker of news between the desk and the entry invocation."""
    return marker(RECORD_AT_DESK.name, DeskRecord(**news))


def task(begins: float) -> list[HistoryEvent]:
    """A task of the desk that begins at this minute."""
    first, last = HistoryEvent(), HistoryEvent()
    first.workflow_task_started_event_attributes.SetInParent()
    last.workflow_task_completed_event_attributes.SetInParent()
    return [at(first, begins), at(last, begins)]


def request(key: str = "1", **more: Any) -> RequestApprovalInput:
    plain = {"invocation": "run/main", "key": key, "worker": "main", "path": "main", "tool": "t", "summary": "s"}
    return RequestApprovalInput.model_validate({**plain, "args": {}, "capabilities": (), **more})


def decided(approval: str, minutes: float = 0, door: str = "signal") -> HistoryEvent:
    verdict = VERDICT.model_copy(update={"at": NOON + timedelta(minutes=minutes), "door": door})
    return told("deliver_decision", DeliverDecisionInput(key="1", id=approval, verdict=verdict))


async def read(*events: HistoryEvent) -> tuple[list[Question], list[Grant]]:
    async def reading() -> AsyncIterator[HistoryEvent]:
        for event in events:
            yield event

    return await read_desk("run", reading())


async def test_what_a_run_had_settled_before_it_went_on_as_new_counts() -> None:
    grants = [Grant(tool="t", canonical_args="[]", approval=f"a{number}", verdict=VERDICT) for number in (1, 2)]
    desk = {"earlier": 4, "grants": [grant.model_dump(mode="json") for grant in grants]}
    begun = started({"worker": "main", "continued": {"desk": desk}}, before="first")
    asked = signaled("request_approval", request())
    questions, grants = await read(begun, signaled("revoke_grant", {"id": "a2"}), asked)
    assert [question.id for question in questions] == ["a5"]
    assert [grant.approval for grant in grants] == ["a1"]


async def test_where_a_run_stands_must_be_readable() -> None:
    elsewhere = Payload(metadata={"encoding": b"json/protobuf", "messageType": REFERENCE_TYPE}, data=b"{}")
    assert (await read(started(elsewhere)))[0] == []
    with pytest.raises(UsageError, match="workshop"):
        await read(started(elsewhere, before="first"))


async def test_questions_that_a_run_took_along_as_new_are_asked_once() -> None:
    asked = Approval(id="a2", asked_at=NOON, request=request("2"))
    given = {"worker": "main", "continued": {"desk": {"earlier": 1, "approvals": [asked.model_dump(mode="json")]}}}
    before = [recorded(asked=request("1")), recorded(asked=request("2"))]
    questions, _ = await read(started({"worker": "main"}), *before, started(given, before="first"))
    assert [(one.id, one.request.key) for one in questions] == [("a1", "1"), ("a2", "2")]


async def test_news_of_the_desk_that_is_kept_elsewhere_must_be_readable() -> None:
    news = recorded(asked=request())
    news.marker_recorded_event_attributes.details["result"].payloads[0].metadata["messageType"] = REFERENCE_TYPE
    with pytest.raises(UsageError, match="workshop"):
        await read(news)


REVOKE = signaled("revoke_grant", {"id": "a1", "by": "bob"})
DECIDE = signaled("decide", {"id": "a1", "decision": "approve"})
ASK = signaled("request_approval", request())


@pytest.mark.parametrize(
    ("events", "in_force"),
    [
        ([ASK, *task(1), decided("a1", 1)], True),
        ([ASK, *task(1), decided("a1", 1), REVOKE, *task(2)], False),
        # no worker service has seen to it yet
        ([ASK, *task(1), decided("a1", 1), REVOKE], False),
        # decided and taken back while no worker service ran
        ([ASK, DECIDE, REVOKE, *task(1), decided("a1", 1)], False),
        ([ASK, signaled("decide", {"decision": "approve"}), REVOKE, *task(1), decided("a1", 1)], False),
        # taken back before it was decided, all in one task
        ([ASK, REVOKE, DECIDE, *task(1), decided("a1", 1)], True),
        ([ASK, REVOKE, *task(1), decided("a1", 1, door="update")], True),
        ([ASK, REVOKE, DECIDE, REVOKE, *task(1), decided("a1", 1)], False),
        # the answer was told later than it was taken back
        ([ASK, *task(1), REVOKE, *task(2), decided("a1", 1)], False),
        # there was nothing to take back then
        ([ASK, REVOKE, *task(1), *task(2), decided("a1", 2)], True),
    ],
)
async def test_a_grant_is_taken_back_by_what_came_after_it(events: list[HistoryEvent], in_force: bool) -> None:
    assert bool((await read(*events))[1]) is in_force


def held_grant(minutes: float) -> HistoryEvent:
    """The news that a remembered decision of minute 1 takes effect in this minute."""
    took_effect = NOON + timedelta(minutes=minutes)
    verdict = VERDICT.model_copy(update={"at": NOON + timedelta(minutes=1), "effective_at": took_effect})
    return told("deliver_decision", DeliverDecisionInput(key="1", id="a1", verdict=verdict))


@pytest.mark.parametrize(
    ("events", "in_force"),
    [
        ([ASK, DECIDE, *task(1), *task(2), held_grant(2)], True),
        # there was nothing to take back while the decision was held
        ([ASK, DECIDE, *task(1), REVOKE, *task(1.5), *task(2), held_grant(2)], True),
        ([ASK, DECIDE, *task(1), *task(2), held_grant(2), REVOKE, *task(3)], False),
        ([ASK, DECIDE, *task(1), *task(2), held_grant(2), REVOKE], False),
    ],
)
async def test_the_grant_of_a_held_decision_begins_when_it_takes_effect(
    events: list[HistoryEvent], in_force: bool
) -> None:
    assert bool((await read(*events))[1]) is in_force


async def test_what_a_grant_answered_is_no_grant() -> None:
    echoed = VERDICT.model_copy(update={"door": "grant"})
    once = VERDICT.model_copy(update={"remember": Remember.NONE})
    second = told("deliver_decision", DeliverDecisionInput(key="2", id="a2", verdict=echoed))
    third = told("deliver_decision", DeliverDecisionInput(key="3", id="a3", verdict=once))
    asked = [signaled("request_approval", request(key)) for key in ("1", "2", "3")]
    questions, grants = await read(*asked, decided("a1"), second, third)
    assert [grant.approval for grant in grants] == ["a1"]
    assert [question.is_open for question in questions] == [False] * 3


class Desk:
    """A desk as the run's workflow keeps it, and the history that this leaves: each step is a task, a minute later.

    `near` says that whoever asks is the entry invocation, in the workflow of the desk.
    """

    def __init__(self, *, near: bool) -> None:
        self._near = near
        self.state = DeskState(started_by="ann")
        self.events = [started({"worker": "main"})]
        self._minutes = 0.0

    def ask(self, key: str, **more: Any) -> None:
        """An invocation asks."""
        asked = request(key, **more)
        now = self._news("request_approval", "asked", asked)
        self.state, approval = desk.with_request(self.state, asked, now=now)
        self._deliver([approval] if approval.verdict is not None else [])

    def decide(self, **decision: Any) -> None:
        """A person decides by signal."""
        taken = Decision.model_validate({"decision": "approve", **decision})
        now = self._signal("decide", taken)
        self.state, answered = desk.with_decision(self.state, taken, door="signal", now=now)
        if taken.decision is None:
            self._record(held=HeldNews(id=answered[0].id))
        else:
            self._deliver(answered)

    def withdraw(self, *keys: str, **more: Any) -> None:
        """An invocation no longer asks."""
        withdrawal = WithdrawApprovalsInput(invocation="run/main", keys=keys, **more)
        self._news("withdraw_approvals", "withdrawn", withdrawal)
        self.state = desk.with_withdrawal(self.state, withdrawal)

    def revoke(self, approval: str) -> None:
        """A person takes a grant back."""
        revocation = RevokeGrantInput(id=approval)
        self._signal("revoke_grant", revocation)
        self.state = with_revocation(self.state, revocation)

    def undo(self, approval: str, by: str) -> None:
        """A person takes a held decision back."""
        self.decide(id=approval, by=by, decision=None)

    def wait(self, minutes: float) -> None:
        """Time passes, and the timer of the desk fires."""
        self.state, late = desk.at_time(self.state, now=self._tick(minutes))
        self._deliver(late)

    def _news(self, name: str, kind: str, message: Any) -> datetime:
        return self._happens(recorded(**{kind: message}) if self._near else signaled(name, message))

    def _signal(self, name: str, message: Any) -> datetime:
        return self._happens(signaled(name, message))

    def _tick(self, minutes: float = 1) -> datetime:
        self._minutes += minutes
        self.events += task(self._minutes)
        return NOON + timedelta(minutes=self._minutes)

    def _record(self, **news: Any) -> None:
        """The news that the desk keeps in the history wherever the question comes from."""
        self.events.append(at(recorded(**news), self._minutes))

    def _happens(self, event: HistoryEvent) -> datetime:
        self._minutes += 1
        self.events += [at(event, self._minutes), *task(self._minutes)]
        return NOON + timedelta(minutes=self._minutes)

    def _deliver(self, answered: list[Approval]) -> None:
        for one in answered:
            key, votes = one.request.key, one.votes
            if one.held is not None:
                self._record(held=HeldNews(id=one.id, held=one.held))
                continue
            if one.verdict is None:
                given = DeliverVotesInput(key=key, id=one.id, votes=votes)
                event = recorded(voted=given) if self._near else told("deliver_votes", given)
            else:
                delivery = DeliverDecisionInput(key=key, id=one.id, verdict=one.verdict, votes=votes)
                event = recorded(decided=delivery) if self._near else told("deliver_decision", delivery)
            self.events.append(at(event, self._minutes))


ALWAYS = {"remember": "session"}
TWO_AGREE: dict[str, Any] = {"quorum": 2, "args_schema": {"type": "object"}}
HELD: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("ask", ("1",), {}),
    ("ask", ("2",), {}),
    ("decide", (), {"id": "a1", "by": "bob", "hold": 60, **ALWAYS}),
]
LAST_VOTE: tuple[str, tuple[str, ...], dict[str, Any]] = ("decide", (), {"by": "eve", "hold": 60})
STEPS: dict[str, list[tuple[str, tuple[str, ...], dict[str, Any]]]] = {
    "asked": [("ask", ("1",), {}), ("ask", ("2",), {"tool": "other"})],
    "decided": [("ask", ("1",), {}), ("decide", (), {"id": "a1", "by": "bob"}), ("ask", ("2",), {})],
    "rejected": [("ask", ("1",), {}), ("decide", (), {"decision": "reject", "note": "no"})],
    "withdrawn": [("ask", ("1",), {}), ("ask", ("2",), {}), ("withdraw", ("2",), {})],
    "withdrawn but for those decided": [
        ("ask", ("1",), {}),
        ("decide", (), {}),
        ("ask", ("2",), {}),
        ("withdraw", (), {"closed": True}),
        ("ask", ("3",), {"invocation": "run/other"}),
    ],
    "granted, for a question that is open and one that comes": [
        ("ask", ("1",), {}),
        ("ask", ("2",), {}),
        ("ask", ("3",), {"tool": "other"}),
        ("decide", (), {"id": "a1", **ALWAYS}),
        ("ask", ("4",), {}),
    ],
    "revoked": [
        ("ask", ("1",), {}),
        ("decide", (), ALWAYS),
        ("ask", ("2",), {"tool": "other"}),
        ("decide", (), ALWAYS),
        ("revoke", ("a1",), {}),
        ("ask", ("3",), {}),
    ],
    "voted, once": [("ask", ("1",), TWO_AGREE), ("decide", (), {"by": "bob"})],
    "voted anew for other arguments": [
        ("ask", ("1",), TWO_AGREE),
        ("decide", (), {"by": "bob"}),
        ("decide", (), {"by": "eve", "decision": "modify", "args": {"a": 1}}),
    ],
    "voted, and remembered by all": [
        ("ask", ("1",), TWO_AGREE),
        ("decide", (), {"by": "bob", **ALWAYS}),
        ("decide", (), {"by": "eve", **ALWAYS}),
        ("ask", ("2",), TWO_AGREE),
    ],
    "late": [
        ("ask", ("1",), {"timeout_seconds": 60, "deadline": NOON + timedelta(minutes=2)}),
        ("wait", (), {"minutes": 5}),
        ("ask", ("2",), {}),
    ],
    "held": [*HELD, ("decide", (), {"id": "a2"})],
    "held, and taken back": [*HELD, ("undo", ("a1", "bob"), {}), ("decide", (), {"id": "a1", "by": "eve"})],
    "held and taken back, twice": [
        *HELD,
        ("undo", ("a1", "bob"), {}),
        ("decide", (), {"id": "a1", "by": "eve", "hold": 60}),
        ("undo", ("a1", "eve"), {}),
    ],
    "held, and in effect by itself": [*HELD, ("wait", (), {"minutes": 1}), ("ask", ("3",), {})],
    "held, and replaced by one that is held": [*HELD, ("decide", (), {"id": "a1", "by": "bob", "hold": 9})],
    "held, and replaced at once": [*HELD, ("decide", (), {"id": "a1", "by": "bob", **ALWAYS}), ("ask", ("3",), {})],
    "held, and replaced by a vote": [
        ("ask", ("1",), TWO_AGREE),
        ("decide", (), {"by": "bob"}),
        LAST_VOTE,
        ("decide", (), {"id": "a1", "by": "eve", "decision": "modify", "args": {"a": 1}}),
    ],
    "held, in effect and revoked": [*HELD, ("wait", (), {"minutes": 1}), ("revoke", ("a1",), {})],
    "held, and withdrawn": [*HELD, ("withdraw", ("1",), {})],
    "held beside a vote": [("ask", ("1",), TWO_AGREE), ("decide", (), {"by": "bob"}), LAST_VOTE],
    "held beside a vote, and taken back": [
        ("ask", ("1",), TWO_AGREE),
        ("decide", (), {"by": "bob"}),
        LAST_VOTE,
        ("undo", ("a1", "eve"), {}),
    ],
}


@pytest.mark.parametrize("near", [False, True], ids=["delegated", "entry"])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
async def test_a_client_reads_from_the_history_the_desk_that_the_workflow_keeps(
    steps: list[tuple[str, tuple[str, ...], dict[str, Any]]], near: bool
) -> None:
    kept = Desk(near=near)
    for step, values, named in steps:
        getattr(kept, step)(*values, **named)
    questions, grants = await read(*kept.events)
    assert questions == [Question.of(one, "run") for one in kept.state.approvals]
    assert grants == list(kept.state.grants)
    assert [one.id for one in questions if one.is_open] == [one.id for one in desk.pending(kept.state)]
