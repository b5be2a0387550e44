"""Guard of limits: a person is asked at a reached limit; the work goes on where it is raised, else it stops."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.errors import ApprovalTimedOut, BudgetExceeded, LlmDoError
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.budget import Spending
from llm_do_temporal.policy.approvals import Mode, Terms
from llm_do_temporal.policy.budget import Account, Action, Amounts, Dimension, Limits, Report
from llm_do_temporal.workflows.invocation.budget import BudgetGuard, BudgetLease, within
from llm_do_temporal.workflows.tools.gated_tool import AskedTool, ToolQuestion
from tests.support.workflow.desk_questions import NOON
from tests.support.workflow.fake_workflow import FakeWorkflow, idle
from tests.support.workflow.invocations import invocation

APPROVE, REJECT, MODIFY = DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.MODIFY
MINUTE = Limits(time=60)


@dataclass
class LimitDesk:
    """A desk that gives these answers in turn, and keeps the questions; without a further answer a question waits."""

    answers: list[dict[str, Any] | Exception] = field(default_factory=list[dict[str, Any] | Exception])
    tools: list[AskedTool] = field(default_factory=list[AskedTool])
    questions: list[ToolQuestion] = field(default_factory=list[ToolQuestion])
    accounts: list[str | None] = field(default_factory=list[str | None])

    async def ask(
        self,
        tool: AskedTool,
        question: ToolQuestion,
        *,
        reason: str,
        terms: Terms,
        diff: str | None = None,
        account: str | None = None,
    ) -> Verdict:
        """See AsksDesk."""
        self.tools.append(tool)
        self.questions.append(question)
        self.accounts.append(account)
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        plain = {"decision": APPROVE, "args": question.args, "by": "ada", "at": NOON, "door": "update"}
        return Verdict.model_validate({**plain, **answer})

    def report(self, tool: AskedTool, error: Exception) -> None:
        """See AsksDesk."""
        raise error

    async def withdraw_abandoned(self) -> None:
        """See AsksDesk."""


@dataclass
class Guarded:
    """A guard with its lease and its desk, and the reports that the lease makes."""

    guard: BudgetGuard
    lease: BudgetLease
    desk: LimitDesk
    reports: list[Report]


def guarded(*answers: dict[str, Any] | Exception, path: str = "main", asks: bool = True, **more: Any) -> Guarded:
    """The guard of an invocation that began at noon; `asks` False: it has no desk. `more` goes to the invocation."""
    reports: list[Report] = []

    async def tell(report: Report) -> None:
        reports.append(report)

    spending = more.pop("spending", Spending())
    fields: dict[str, Any] = {"limited": tuple(Dimension), "started_at": NOON, **more}
    guards = invocation(path, **fields)
    lease, desk = BudgetLease(guards, spending, tell), LimitDesk(list(answers))
    return Guarded(BudgetGuard(guards, lease, desk if asks else None), lease, desk, reports)


def reached(dimension: Dimension, limits: Limits, *, path: str = "main", **more: Any) -> Action:
    """The news that a limit of an account is reached, of which all is spent."""
    counted = dimension is not Dimension.TIME
    spent = Amounts.model_validate({dimension: limits.of(dimension)} if counted else {})
    fields: dict[str, Any] = {"limits": limits, "steps": limits, "spent": spent, **more}
    account = Account(path=path, owner="r", reached=dimension, **fields)
    return Action(kind="reached", invocation="r", account=account)


async def stopped(case: Guarded, action: Action) -> LlmDoError:
    """Return the reason to stop that the guard has after this action."""
    await case.guard.apply(action)
    watching = asyncio.create_task(case.guard.until_stopped())
    await idle()
    if not watching.done():
        watching.cancel()
        pytest.fail("the guard has no reason to stop")
    return watching.result()


async def going_on(case: Guarded, *actions: Action) -> None:
    """Check that the guard has no reason to stop after these actions."""
    watching = asyncio.create_task(case.guard.until_stopped())
    for action in actions:
        await case.guard.apply(action)
        await idle()
        assert not watching.done()
    watching.cancel()
    await asyncio.wait([watching])


async def test_at_a_reached_limit_a_person_is_asked_for_the_next_one(fake_workflow: FakeWorkflow) -> None:
    case = guarded({})
    await going_on(case, reached(Dimension.TURNS, Limits(turns=4)))
    (question,), (tool,) = case.desk.questions, case.desk.tools
    assert question.summary == "main has spent 4 turns, its limit is 4 turns; go on to 8 turns?"
    assert question.args == {"limit": "turns", "spent": 4, "next": 8}
    assert [use.payload for use in question.uses] == [{"of": "main", **question.args}]
    assert case.desk.accounts == ["main"]
    assert tool.schema["properties"]["next"]["exclusiveMinimum"] == 4


async def test_an_approval_lets_the_work_go_on_to_the_next_question(fake_workflow: FakeWorkflow) -> None:
    case = guarded({}, {})
    turns, calls = (
        reached(Dimension.TURNS, Limits(turns=4), path=""),
        reached(Dimension.TOOL_CALLS, Limits(tool_calls=9)),
    )
    await going_on(case, turns, calls)
    assert case.desk.accounts == ["", "main"]
    assert case.desk.questions[0].uses[0].payload["of"] == "the run"


async def test_two_limits_that_are_reached_at_once_are_two_questions(fake_workflow: FakeWorkflow) -> None:
    case = guarded({}, {"decision": REJECT})
    await case.guard.apply(reached(Dimension.TURNS, Limits(turns=4)))
    reason = await stopped(case, reached(Dimension.TOKENS, Limits(tokens=100)))
    assert [question.args["limit"] for question in case.desk.questions] == ["turns", "tokens"]
    assert "100 tokens" in str(reason)


@pytest.mark.parametrize(
    ("dimension", "limits", "more", "next_limit"),
    [
        (Dimension.TURNS, Limits(turns=8), {"steps": Limits(turns=4)}, 12),  # a step is the first limit
        (Dimension.TOKENS, Limits(tokens=100), {"spent": Amounts(tokens=350)}, 400),  # above the spent amount
        (Dimension.TOKENS, Limits(tokens=100), {"spent": Amounts(tokens=400)}, 500),  # not the spent amount itself
        (Dimension.COST, Limits(cost=Decimal("0.5")), {}, 1),
        (Dimension.TIME, MINUTE, {}, 120),
        # a price is unknown: the same limit for the turns whose price is known
        (Dimension.COST, Limits(cost=Decimal(2)), {"spent": Amounts(cost=Decimal(1)), "unpriced": ("p:odd",)}, 2),
    ],
)
async def test_the_next_limit_leaves_room_for_more(
    fake_workflow: FakeWorkflow, dimension: Dimension, limits: Limits, more: dict[str, Any], next_limit: int
) -> None:
    case = guarded({})
    await going_on(case, reached(dimension, limits, **more))
    assert case.desk.questions[0].args["next"] == next_limit


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "its limit is 4 turns; ada decided to stop"),
        ({"note": "too dear"}, "its limit is 4 turns; ada decided to stop: too dear"),
        ({"by": ""}, "its limit is 4 turns; a person decided to stop"),
        ({"by": "", "door": "timer", "note": "nobody answered"}, "its limit is 4 turns; nobody answered"),
    ],
)
async def test_a_refusal_stops_the_work_with_its_reason(
    fake_workflow: FakeWorkflow, answer: dict[str, Any], words: str
) -> None:
    case = guarded({"decision": REJECT, **answer})
    reason = await stopped(case, reached(Dimension.TURNS, Limits(turns=4)))
    assert isinstance(reason, BudgetExceeded)
    assert str(reason) == f"limit reached: main has spent 4 turns, {words}"
    assert reason.next_step == "Raise the worker's `limits: turns`."


@pytest.mark.parametrize("unasked", [{"asks": False}, {"mode": Mode.STRICT}, {"mode": Mode.APPROVE_ALL}])
async def test_no_person_is_asked_without_a_desk_or_in_another_mode(
    fake_workflow: FakeWorkflow, unasked: dict[str, Any]
) -> None:
    case = guarded({}, **unasked)
    reason = await stopped(case, reached(Dimension.TOOL_CALLS, Limits(tool_calls=4), path=""))
    assert case.desk.questions == []
    assert str(reason) == "limit reached: the run has spent 4 tool calls, its limit is 4 tool calls"
    assert reason.next_step == "Raise `limits: tool_calls` in workshop.yaml, or start with --max-tool-calls."


async def test_an_account_without_a_reached_limit_is_no_reason_to_ask_or_to_stop(fake_workflow: FakeWorkflow) -> None:
    case = guarded()
    plain = Account(path="main", owner="r", limits=Limits(turns=4), steps=Limits(turns=4))
    unlimited = plain.model_copy(update={"reached": Dimension.TOKENS})
    await going_on(case, *(Action(kind="reached", invocation="r", account=each) for each in (plain, unlimited, None)))
    assert case.desk.questions == []


async def test_a_grant_goes_to_the_lease_and_a_recall_is_answered_at_once(fake_workflow: FakeWorkflow) -> None:
    case = guarded()
    await case.guard.apply(Action(kind="grant", invocation="r", number=1, amounts=Amounts(turns=3)))
    assert case.lease.state.holds == Amounts(turns=3)
    await case.guard.apply(Action(kind="recall", invocation="r"))
    assert [report.holds for report in case.reports] == [Amounts()]


async def test_when_the_time_is_up_the_desk_is_told_once(fake_workflow: FakeWorkflow) -> None:
    case = guarded(limits=MINUTE)
    fake_workflow.now = NOON + timedelta(seconds=20)
    watching = asyncio.create_task(case.guard.until_stopped())
    for _ in range(3):
        await idle()
    assert [report.overdue for report in case.reports] == [("main",)]
    assert fake_workflow.timers == [timedelta(seconds=40)]
    assert not watching.done()
    watching.cancel()


async def test_a_time_that_was_up_before_is_reported_without_a_timer_of_its_own(fake_workflow: FakeWorkflow) -> None:
    case = guarded(limits=MINUTE)
    fake_workflow.now = NOON + timedelta(hours=1)
    watching = asyncio.create_task(case.guard.until_stopped())
    for _ in range(3):
        await idle()
    watching.cancel()
    assert [report.overdue for report in case.reports] == [("main",)]
    assert fake_workflow.timers == [timedelta(0)]


@pytest.mark.parametrize(
    ("answer", "seconds"), [({}, 120), ({"decision": MODIFY, "args": {"limit": "time", "spent": 60, "next": 90}}, 90)]
)
async def test_a_raised_time_limit_is_a_new_moment_and_outlives_the_workflow(
    fake_workflow: FakeWorkflow, answer: dict[str, Any], seconds: int
) -> None:
    case = guarded(answer, limits=MINUTE)
    fake_workflow.now = NOON + timedelta(seconds=70)
    watching = asyncio.create_task(case.guard.until_stopped())
    for _ in range(3):
        await idle()
    await case.guard.apply(reached(Dimension.TIME, MINUTE))
    for _ in range(3):
        await idle()
    watching.cancel()
    assert case.desk.questions[0].summary == "main has gone on for 1 minute, its limit; go on to 2 minutes?"
    assert case.lease.state.times == {"main": seconds}
    assert fake_workflow.timers == [timedelta(0), timedelta(seconds=seconds - 70)]
    assert [report.overdue for report in case.reports] == [("main",), ("main",)]


async def test_a_continued_workflow_has_the_time_that_was_agreed_to(fake_workflow: FakeWorkflow) -> None:
    case = guarded(limits=MINUTE, spending=Spending(times={"main": 300}))
    await going_on(case, Action(kind="grant", invocation="r", number=1))
    assert fake_workflow.timers == [timedelta(seconds=300)]


@pytest.mark.parametrize(
    ("path", "own", "of_run", "needed"),
    [
        ("main", Limits(), Limits(), False),
        ("main", Limits(), Limits(turns=1), True),  # the entry worker asks for the run
        ("main", Limits(turns=1), Limits(), True),
        ("main/child-1", Limits(), Limits(turns=1), False),  # another one asks for the run
        ("main/child-1", Limits(turns=1), Limits(), True),
    ],
)
def test_a_guard_is_needed_where_a_limit_belongs_to_the_invocation(
    path: str, own: Limits, of_run: Limits, needed: bool
) -> None:
    async def tell(report: Report) -> None:
        raise AssertionError(report)

    plain = invocation(path, limits=own)
    limited = plain.model_copy(update={"settings": plain.settings.model_copy(update={"limits": of_run})})
    assert BudgetGuard(limited, BudgetLease(limited, Spending(), tell), None).is_needed is needed


async def test_work_that_ends_has_its_result_and_its_errors(fake_workflow: FakeWorkflow) -> None:
    async def fails() -> str:
        raise KeyError("own")

    async def ends() -> str:
        await idle()
        return "done"

    assert await within(ends(), guarded().guard) == "done"
    with pytest.raises(KeyError, match="own"):
        await within(fails(), guarded().guard)


async def test_a_refusal_ends_the_work_before_the_reason_is_raised(fake_workflow: FakeWorkflow) -> None:
    case, steps = guarded({"decision": REJECT}), list[str]()
    running = asyncio.create_task(within(endless(steps), case.guard))
    await idle()
    await case.guard.apply(reached(Dimension.TURNS, Limits(turns=4)))
    with pytest.raises(BudgetExceeded, match="ada decided to stop"):
        await running
    assert steps == ["begun", "ended"]


async def test_a_cancellation_ends_the_work_first(fake_workflow: FakeWorkflow) -> None:
    case, steps = guarded(), list[str]()
    running = asyncio.create_task(within(endless(steps), case.guard))
    await idle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert steps == ["begun", "ended"]


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (ApprovalTimedOut("no answer"), ApprovalTimedOut),
        (ApplicationError("no answer", type="ApprovalTimedOut"), ApprovalTimedOut),
    ],
)
async def test_a_question_that_fails_stops_the_work_with_one_of_our_errors(
    fake_workflow: FakeWorkflow, failure: Exception, raised: type[LlmDoError]
) -> None:
    case, steps = guarded(failure), list[str]()
    running = asyncio.create_task(within(endless(steps), case.guard))
    await idle()
    await case.guard.apply(reached(Dimension.TURNS, Limits(turns=4)))
    with pytest.raises(raised, match="no answer"):
        await running
    assert steps == ["begun", "ended"]


async def endless(steps: list[str]) -> None:
    """Work that needs some time to stop, and never ends by itself."""
    steps.append("begun")
    try:
        await asyncio.Event().wait()
    finally:
        await idle()
        steps.append("ended")
