"""The run's side of limits: invocations are told what they may spend, and one that is gone has spent what it held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError

from llm_do_temporal.desk import state as desk
from llm_do_temporal.messages.approvals import Approval, Decision
from llm_do_temporal.policy.budget import Action, Amounts, Ledger, Limits, Report
from llm_do_temporal.workflows.run.desk import RunBudget
from tests.support.workflow.desk_questions import LATER, asked, request
from tests.support.workflow.fake_workflow import FakeWorkflow, idle

CHILD = "r/main/child-1"
OTHER = "r/main/other-1"
TURN = Amounts(turns=1)


@pytest_asyncio.fixture(loop_scope="session")
async def budget(fake_workflow: FakeWorkflow) -> AsyncIterator[RunBudget]:
    """The budget of a run with four turns, which tells invocations what there is to tell."""
    fake_workflow.info.workflow_id = "r"
    budget = RunBudget(Ledger())
    budget.open("r", Limits(turns=4))
    serving = asyncio.create_task(budget.serve())
    yield budget
    serving.cancel()


def wants(invocation: str, **more: Any) -> Report:
    return Report(invocation=invocation, path=invocation.removeprefix("r/"), wants=TURN, **more)


async def test_an_invocation_that_asks_is_granted_a_part_of_what_is_left(
    budget: RunBudget, fake_workflow: FakeWorkflow
) -> None:
    budget.take(wants(CHILD))
    await idle()
    (grant,) = fake_workflow.signals_to(CHILD)
    assert grant == Action(kind="grant", invocation=CHILD, number=1, amounts=Amounts(turns=2))


async def test_what_was_granted_to_one_that_has_ended_counts_as_spent(
    budget: RunBudget, fake_workflow: FakeWorkflow
) -> None:
    fake_workflow.refuses = lambda receiver: ApplicationError("closed") if receiver == CHILD else None
    budget.take(wants(CHILD))
    await idle()
    assert CHILD not in budget.ledger.holders
    (account,) = budget.ledger.accounts
    assert account.spent.turns == 2
    assert account.held == Amounts()


async def test_one_that_has_ended_holds_up_nobody_else(budget: RunBudget, fake_workflow: FakeWorkflow) -> None:
    fake_workflow.refuses = lambda receiver: ApplicationError("closed") if receiver == CHILD else None
    budget.take(wants(CHILD))
    budget.take(wants(OTHER))
    await idle()
    assert [action.kind for action in fake_workflow.signals_to(OTHER)] == ["grant"]


async def test_the_run_itself_is_told_without_a_signal(budget: RunBudget, fake_workflow: FakeWorkflow) -> None:
    taken: list[Action] = []

    async def take(action: Action) -> None:
        taken.append(action)

    budget.take_own = take
    budget.take(wants("r"))
    await idle()
    assert [action.kind for action in taken] == ["grant"]
    assert fake_workflow.signals == []


@pytest.mark.parametrize(
    ("decision", "limit"),
    [
        ({}, 8),
        ({"decision": "modify", "args": {"limit": "turns", "spent": 4, "next": 6}}, 6),
        ({"decision": "reject"}, 4),
    ],
)
def test_an_approval_raises_the_limit_that_it_is_about(budget: RunBudget, decision: dict[str, Any], limit: int) -> None:
    budget.decide(answered(decision, account=""))
    assert [account.limits.turns for account in budget.ledger.accounts] == [limit]


@pytest.mark.parametrize(
    "question",
    [
        {"account": None},  # about a call
        {"account": "elsewhere"},
        {"account": "", "args": {"limit": "patience", "next": 9}},
        {"account": "", "args": {"next": 9}},
    ],
)
def test_what_is_no_question_about_a_limit_raises_none(budget: RunBudget, question: dict[str, Any]) -> None:
    budget.decide(answered({}, **question))
    assert [account.limits.turns for account in budget.ledger.accounts] == [4]


def answered(decision: dict[str, Any], **question: Any) -> Approval:
    """A question at a limit of four turns, which goes on to eight, with its answer."""
    args = {"limit": "turns", "spent": 4, "next": 8}
    schema = {"type": "object", "properties": {"next": {"type": "number"}}}
    state = asked(request(**{"args": args, "args_schema": schema, "tool": "go_on", **question}))
    taken = Decision.model_validate({"decision": "approve", **decision})
    _, (approval, *_) = desk.with_decision(state, taken, door="signal", now=LATER)
    return approval
