"""The desk of a run: the history keeps its news with the entry invocation, and shows outside only what is new."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
import pytest_asyncio
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.activities import DeskRecord
from llm_do_temporal.messages.approvals import (
    Decision,
    DecisionKind,
    DeliverDecisionInput,
    DeliverVotesInput,
    DeskState,
    Remember,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.base import (
    DELIVER_DECISION_SIGNAL,
    PENDING_ATTRIBUTE,
    PENDING_MEMO,
    STATE_ATTRIBUTE,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.policy.budget import Action, Amounts, Limits, Report
from llm_do_temporal.workflows.run.desk import RunDesk
from tests.support.workflow.desk_questions import NOON, request, write
from tests.support.workflow.fake_workflow import FakeWorkflow, idle

CHILD = "r/main/child-1"
AT_START = {STATE_ATTRIBUTE: "running", PENDING_ATTRIBUTE: 0, WORKER_ATTRIBUTE: "main"}
"""Search attributes that a client sets when it starts a run."""


@dataclass
class Near:
    """The entry invocation, as far as the desk answers it."""

    decisions: list[DeliverDecisionInput] = field(default_factory=list[DeliverDecisionInput])
    votes: list[DeliverVotesInput] = field(default_factory=list[DeliverVotesInput])
    actions: list[Action] = field(default_factory=list[Action])

    def __post_init__(self) -> None:
        self.desk = self.guard = self

    def take_decision(self, delivery: DeliverDecisionInput) -> None:
        """See Invocation."""
        self.decisions.append(delivery)

    def show_votes(self, delivery: DeliverVotesInput) -> None:
        """See Invocation."""
        self.votes.append(delivery)

    async def apply(self, action: Action) -> None:
        """See Invocation."""
        self.actions.append(action)


@dataclass
class Office:
    """A desk at work beside the entry invocation of run `r`."""

    desk: RunDesk
    near: Near

    async def ask(self, *paths: str, **terms: Any) -> None:
        """The entry invocation asks about writes to these paths, one after the other."""
        for key, path in enumerate(paths, 1):
            await self.desk.ask(write(path, key=str(key), invocation="r", **terms))
        await idle()

    async def decide(self, identity: str, **more: Any) -> None:
        """A person agrees; then all happens that happens by itself."""
        self.desk.take_signal(Decision(id=identity, decision=DecisionKind.APPROVE, **more))
        await idle()

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Ids of all questions, with the paths that they are about."""
        return [(one.id, one.request.args["path"]) for one in self.desk.state.approvals]


@pytest_asyncio.fixture(loop_scope="session")
async def office(fake_workflow: FakeWorkflow) -> AsyncIterator[Office]:
    """A desk in a namespace that knows our search attributes, which the client has set."""
    pairs = [
        SearchAttributePair(SearchAttributeKey.for_keyword(STATE_ATTRIBUTE), "running"),
        SearchAttributePair(SearchAttributeKey.for_int(PENDING_ATTRIBUTE), 0),
        SearchAttributePair(SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE), "main"),
    ]
    fake_workflow.info.typed_search_attributes = TypedSearchAttributes(pairs)
    desk, near = RunDesk(DeskState()), Near()
    desk.begin()
    desk.has_attributes = True
    desk.open("main", "ann")
    desk.serve_near(cast("Any", near))
    yield Office(desk, near)
    desk.close()


# --- the history ---


async def test_questions_that_are_asked_at_once_are_numbered_as_the_history_records_them(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    fake_workflow.gate.clear()
    first = asyncio.create_task(office.desk.ask(write("/first.txt", key="1", invocation="r")))
    second = asyncio.create_task(office.desk.ask(write("/second.txt", key="2", invocation="r")))
    await idle()
    # The second is not even recorded before the first is sure to be.
    assert [record.asked.key for record in fake_workflow.recorded] == ["1"]
    assert office.asked == []
    fake_workflow.gate.set()
    await asyncio.gather(first, second)
    assert [record.asked.key for record in fake_workflow.recorded] == ["1", "2"]
    assert office.asked == [("a1", "/first.txt"), ("a2", "/second.txt")]


async def test_a_question_whose_call_is_cancelled_is_taken_all_the_same_once_the_history_has_it(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    """Readers of the history count it: the desk's next question would have another id for them."""
    fake_workflow.gate.clear()
    asking = asyncio.create_task(office.desk.ask(write("/cancelled.txt", key="1", invocation="r")))
    await idle()
    asking.cancel()
    fake_workflow.gate.set()
    await asyncio.gather(asking, return_exceptions=True)
    await idle()
    assert asking.cancelled()
    await office.desk.ask(write("/next.txt", key="2", invocation="r"))
    assert office.asked == [("a1", "/cancelled.txt"), ("a2", "/next.txt")]


async def test_a_question_by_signal_is_numbered_before_one_whose_record_is_not_kept_yet(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    fake_workflow.gate.clear()
    asking = asyncio.create_task(office.desk.ask(write("/near.txt", invocation="r")))
    await idle()
    office.desk.take_question(write("/far.txt", invocation=CHILD))
    fake_workflow.gate.set()
    await asking
    assert office.asked == [("a1", "/far.txt"), ("a2", "/near.txt")]


async def test_an_answer_is_recorded_before_the_entry_invocation_takes_it(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    await office.ask("/a.txt")
    fake_workflow.gate.clear()
    await office.decide("a1", by="bob")
    answer = fake_workflow.recorded[-1].decided
    assert (answer.key, answer.id, answer.verdict.by) == ("1", "a1", "bob")
    assert office.near.decisions == []
    assert not office.desk.is_idle
    fake_workflow.gate.set()
    await idle()
    assert office.near.decisions == [answer]
    assert office.desk.is_idle
    assert fake_workflow.signals == []


async def test_votes_are_recorded_before_the_entry_invocation_shows_them(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    await office.ask("/a.txt", quorum=2)
    fake_workflow.gate.clear()
    await office.decide("a1", by="bob")
    votes = fake_workflow.recorded[-1].voted
    assert [vote.by for vote in votes.votes] == ["bob"]
    assert office.near.votes == []
    fake_workflow.gate.set()
    await office.decide("a1", by="cid")
    assert office.near.votes == [votes]
    assert [decision.id for decision in office.near.decisions] == ["a1"]


async def test_a_question_that_is_taken_back_is_recorded_as_taken_back(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    await office.ask("/a.txt", "/b.txt")
    withdrawal = WithdrawApprovalsInput(invocation="r", keys=("1",))
    await office.desk.withdraw(withdrawal)
    await idle()
    assert fake_workflow.recorded[-1] == DeskRecord(withdrawn=withdrawal)
    assert [one.withdrawn for one in office.desk.state.approvals] == [True, False]
    assert fake_workflow.memos[-1][PENDING_MEMO][0].id == "a2"


async def test_a_remembered_decision_answers_the_entry_invocation_by_a_record_too(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    await office.ask("/a.txt")
    await office.decide("a1", by="bob", remember=Remember.SESSION)
    await office.desk.ask(write("/a.txt", key="2", invocation="r"))
    await idle()
    assert [(one.key, one.verdict.door) for one in office.near.decisions] == [("1", "signal"), ("2", "grant")]
    kinds = [next(iter(record.model_dump(exclude_none=True))) for record in fake_workflow.recorded]
    assert kinds == ["asked", "decided", "asked", "decided"]


# --- invocations in workflows of their own ---


async def test_an_invocation_elsewhere_is_answered_by_signal(office: Office, fake_workflow: FakeWorkflow) -> None:
    office.desk.take_question(write(invocation=CHILD))
    await office.decide("a1", by="bob")
    ((receiver, signal, answer),) = fake_workflow.signals
    assert (receiver, signal, answer.id) == (CHILD, DELIVER_DECISION_SIGNAL, "a1")
    assert fake_workflow.recorded == []
    assert office.near.decisions == []


async def test_an_answer_for_an_invocation_that_has_ended_is_noted(office: Office, fake_workflow: FakeWorkflow) -> None:
    fake_workflow.refuses = lambda receiver: ApplicationError("gone") if receiver == CHILD else None
    office.desk.take_question(write(invocation=CHILD))
    await office.decide("a1", by="bob")
    assert [one.reason for one in office.desk.state.ignored] == ["the worker that asked 'a1' has ended"]
    assert office.desk.is_idle


async def test_the_entry_invocation_is_granted_amounts_without_a_signal(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    office.desk.budget.open("r", Limits(turns=4))
    await office.desk.report(Report(invocation="r", path="main", wants=Amounts(turns=1)))
    await office.desk.report(Report(invocation=CHILD, path="main/child-1", wants=Amounts(turns=1)))
    await idle()
    assert [(action.kind, action.invocation) for action in office.near.actions] == [("grant", "r")]
    assert [receiver for receiver, _, _ in fake_workflow.signals] == [CHILD]
    assert fake_workflow.recorded == []


# --- outside ---


async def test_search_attributes_are_set_only_where_they_change(office: Office, fake_workflow: FakeWorkflow) -> None:
    assert fake_workflow.attributes == []  # the client has set them as they are
    await office.ask("/a.txt")
    await office.ask("/b.txt")
    await office.decide("a1", by="bob")
    await office.decide("a2", by="bob")
    office.desk.close()
    assert fake_workflow.attributes == [
        {STATE_ATTRIBUTE: "waiting", PENDING_ATTRIBUTE: 1},
        {PENDING_ATTRIBUTE: 2},
        {PENDING_ATTRIBUTE: 1},
        {STATE_ATTRIBUTE: "running", PENDING_ATTRIBUTE: 0},
        {STATE_ATTRIBUTE: "closed"},
    ]


async def test_search_attributes_that_the_client_has_not_set_are_set_at_the_beginning(
    fake_workflow: FakeWorkflow,
) -> None:
    desk = RunDesk(DeskState())
    desk.has_attributes = True
    desk.open("main", "ann")
    assert fake_workflow.attributes == [AT_START]


async def test_a_namespace_without_search_attributes_is_given_none(fake_workflow: FakeWorkflow) -> None:
    desk = RunDesk(DeskState())
    desk.open("main", "ann")
    desk.close()
    assert fake_workflow.attributes == []


async def test_the_memo_lists_what_waits_and_is_set_only_where_that_changes(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    assert fake_workflow.memos == []
    await office.ask("/a.txt")
    office.desk.take_withdrawal(WithdrawApprovalsInput(invocation=CHILD, keys=(), closed=True))  # which asked nothing
    await idle()
    await office.decide("a1", by="bob")
    assert [[one.id for one in memo[PENDING_MEMO]] for memo in fake_workflow.memos] == [["a1"], []]
    office.desk.close()
    assert len(fake_workflow.memos) == 2


async def test_a_run_that_ends_while_people_are_asked_shows_no_question_any_more(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    await office.ask("/a.txt")
    office.desk.close()
    assert fake_workflow.memos[-1] == {PENDING_MEMO: []}
    assert fake_workflow.attributes[-1] == {STATE_ATTRIBUTE: "closed", PENDING_ATTRIBUTE: 0}


async def test_the_details_are_those_of_the_desk_and_not_of_the_entry_invocation(
    office: Office, fake_workflow: FakeWorkflow
) -> None:
    await office.ask("/a.txt")
    office.desk.show("Waiting for approval: write a.txt")
    assert all(details.startswith("**Waiting for approval**") for details in fake_workflow.details)
    assert fake_workflow.details


# --- checks of new arguments ---

NUMBERS = 20_000
"""Numbers whose check takes more than a third of the steps of a validation, and less than half."""


def changed(number: int) -> Decision:
    """Return a decision that puts many numbers in the place of a call's arguments."""
    args = {"numbers": list(range(NUMBERS))}
    return Decision(id=f"a{number}", decision=DecisionKind.MODIFY, args=args)


@pytest.fixture
async def asks_numbers(office: Office) -> Office:
    """A desk that has asked about five calls that take numbers."""
    schema = {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}}}
    for key in range(1, 6):
        await office.desk.ask(request(key=str(key), invocation="r", args={"numbers": [1]}, args_schema=schema))
    return office


async def test_the_checks_of_all_signals_of_a_task_take_the_steps_of_one(
    asks_numbers: Office, fake_workflow: FakeWorkflow
) -> None:
    desk = asks_numbers.desk
    desk.take_signal(changed(1))
    desk.take_signal(changed(2))
    with pytest.raises(DecisionRefused, match="more steps than are accepted"):
        desk.take_signal(changed(3))
    # What needs no check is taken all the same, and the next task has steps of its own.
    desk.take_signal(Decision(id="a3", decision=DecisionKind.APPROVE))
    fake_workflow.info.history_length += 3
    desk.take_signal(changed(4))
    assert [one.verdict is not None for one in desk.state.approvals] == [True, True, True, True, False]


async def test_an_update_is_checked_once_and_not_with_the_steps_of_signals(asks_numbers: Office) -> None:
    desk = asks_numbers.desk
    for number in (1, 2):
        desk.check_update(changed(number))
        desk.take_update(changed(number))
    with pytest.raises(DecisionRefused, match="more steps than are accepted"):
        desk.check_update(changed(3))
    # A replay checks no update, and has as many steps left for signals as there were.
    desk.take_signal(changed(4))
    desk.take_signal(changed(5))
    assert [one.verdict is not None for one in desk.state.approvals] == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("due", "timer"),
    [
        (NOON + timedelta(minutes=5), timedelta(minutes=5)),
        (datetime.max.replace(tzinfo=NOON.tzinfo), timedelta(days=365)),  # the server takes no timer of 8,000 years
    ],
)
async def test_a_timer_is_never_longer_than_a_year(
    fake_workflow: FakeWorkflow, due: datetime, timer: timedelta
) -> None:
    desk = RunDesk(DeskState())
    desk._due = due  # pyright: ignore[reportPrivateUsage] - set by the desk's loop from the questions
    assert await desk._has_come(due)  # pyright: ignore[reportPrivateUsage]
    assert fake_workflow.timers == [timer]


async def test_a_moment_that_is_past_needs_no_timer(fake_workflow: FakeWorkflow) -> None:
    assert await RunDesk(DeskState())._has_come(NOON)  # pyright: ignore[reportPrivateUsage]
    assert fake_workflow.timers == []


async def test_another_moment_is_waited_for_as_soon_as_it_is_the_next(fake_workflow: FakeWorkflow) -> None:
    desk = RunDesk(DeskState())  # which waits for none
    assert not await desk._has_come(NOON + timedelta(minutes=5))  # pyright: ignore[reportPrivateUsage]
