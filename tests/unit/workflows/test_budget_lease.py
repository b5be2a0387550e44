"""One invocation's side of limits: nothing is spent that was not granted, and nothing is asked that is at hand."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.messages.budget import Spending, Usage
from llm_do_temporal.policy.budget import Action, Amounts, Dimension, Report
from llm_do_temporal.workflows.invocation.budget import BudgetLease
from tests.support.workflow.fake_workflow import FakeWorkflow, idle
from tests.support.workflow.invocations import invocation

ALL = tuple(Dimension)


def lease_of(
    *, path: str = "main/child-1", limited: tuple[Dimension, ...] = ALL, **spending: Any
) -> tuple[BudgetLease, list[Report]]:
    """Return a lease, and the reports that it makes."""
    reports: list[Report] = []

    async def tell(report: Report) -> None:
        reports.append(report)

    return BudgetLease(invocation(path, limited=limited), Spending(**spending), tell), reports


def grant(number: int, **amounts: Any) -> Action:
    return Action(kind="grant", invocation="r/main/child-1", number=number, amounts=Amounts(**amounts))


def response(tokens: int, cost: str | None) -> ModelResponse:
    usage = RequestUsage(input_tokens=tokens)
    answer = ModelResponse(parts=[], usage=usage)
    if cost is not None:
        answer.usage.cost = Decimal(cost)
    return answer


async def test_without_limits_nothing_is_asked_and_nothing_said(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of(limited=())
    await lease.begin_turn()
    await lease.begin_call()
    await lease.begin_invocation()
    await lease.close()
    assert reports == []
    assert lease.state == Spending()


async def test_a_turn_waits_for_a_grant_and_asks_once(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of()
    turn = asyncio.create_task(lease.begin_turn())
    call = asyncio.create_task(lease.begin_call())
    await idle()
    assert not turn.done()
    assert [report.wants for report in reports] == [Amounts(turns=1)]
    lease.take(grant(1, turns=3))
    await idle()
    # The turn goes on; the call asks for itself, which the grant was not for.
    assert turn.done()
    assert not call.done()
    assert reports[-1].wants == Amounts(tool_calls=1)
    assert (lease.state.spent.turns, lease.state.holds.turns, lease.state.in_turn) == (1, 2, True)
    lease.take(grant(2, tool_calls=2))
    await call
    assert (lease.state.spent.tool_calls, lease.state.holds.tool_calls) == (1, 1)


@pytest.mark.parametrize("number", [0, 2, 7])
async def test_a_grant_out_of_turn_is_no_grant(fake_workflow: FakeWorkflow, number: int) -> None:
    lease, _ = lease_of()
    lease.take(grant(number, turns=3))
    assert lease.state.holds == Amounts()


async def test_what_is_held_is_spent_without_a_word(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of(holds=Amounts(turns=2, tool_calls=1, invocations=1), grants=1)
    await lease.begin_turn()
    await lease.begin_call()
    await lease.begin_invocation()
    assert reports == []
    assert lease.state.spent == Amounts(turns=1, tool_calls=1, invocations=1)


async def test_a_turn_that_was_begun_before_is_not_begun_twice(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of(in_turn=True)
    await lease.begin_turn()
    assert (reports, lease.state.spent) == ([], Amounts())


async def test_the_end_of_a_turn_takes_its_tokens_and_money_from_what_is_held(fake_workflow: FakeWorkflow) -> None:
    lease, _ = lease_of(holds=Amounts(turns=2, tokens=1000, cost=Decimal(1)), grants=1)
    await lease.begin_turn()
    await lease.end_turn(response(400, "0.25"), "p:a")
    state = lease.state
    assert (state.spent.tokens, state.spent.cost) == (400, Decimal("0.25"))
    assert (state.holds.turns, state.holds.tokens, state.holds.cost) == (1, 600, Decimal("0.75"))
    assert state.turn == Amounts(tokens=400, cost=Decimal("0.25"))
    assert (state.tree_cost, state.tree_costs) == (Decimal("0.25"), {"p:a": Decimal("0.25")})


async def test_after_a_turn_that_took_all_nothing_is_kept_for_the_next(fake_workflow: FakeWorkflow) -> None:
    lease, _ = lease_of(holds=Amounts(turns=3, tokens=100, tool_calls=2), grants=1)
    await lease.begin_turn()
    await lease.end_turn(response(400, "0.25"), "p:a")
    assert lease.state.holds == Amounts(tool_calls=2)


async def test_a_turn_without_a_price_ends_what_a_limit_on_cost_can_hold(fake_workflow: FakeWorkflow) -> None:
    lease, _ = lease_of(holds=Amounts(turns=3, cost=Decimal(1)), grants=1)
    await lease.begin_turn()
    await lease.end_turn(response(1, None), "p:odd")
    assert lease.state.holds == Amounts()
    assert (lease.state.unpriced, lease.state.tree_unpriced) == (("p:odd",), ("p:odd",))


async def test_a_recalled_lease_keeps_only_what_its_turn_needs(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of(
        holds=Amounts(turns=5, tokens=1000, tool_calls=3),
        turn=Amounts(tokens=300),
        in_turn=True,
        grants=1,
    )
    await lease.give_back()
    assert lease.state.holds == Amounts(tokens=300)
    await lease.end_turn(response(200, "0.1"), "p:a")
    assert lease.state.holds == Amounts()
    assert [report.holds for report in reports] == [Amounts(tokens=300), Amounts()]
    lease.take(grant(2, turns=1))
    assert not lease.state.recalled


async def test_a_cancelled_wait_leaves_the_others_to_ask(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of()
    first = asyncio.create_task(lease.begin_turn())
    second = asyncio.create_task(lease.begin_call())
    await idle()
    first.cancel()
    await idle()
    assert reports[-1].wants == Amounts(tool_calls=1)
    lease.take(grant(1, tool_calls=1))
    await second
    assert lease.state.spent == Amounts(tool_calls=1)


async def test_the_end_is_reported_except_by_the_entry_worker(fake_workflow: FakeWorkflow) -> None:
    child, of_child = lease_of()
    entry, of_entry = lease_of(path="main")
    await child.close()
    await entry.close()
    assert [report.ended for report in of_child] == ["yes"]
    assert of_entry == []


async def test_time_that_is_up_is_reported_once(fake_workflow: FakeWorkflow) -> None:
    lease, reports = lease_of()
    await lease.time_is_up("main/child-1")
    await lease.report()
    assert [report.overdue for report in reports] == [("main/child-1",), ()]


async def test_a_report_names_the_workflow_in_which_its_invocation_runs(fake_workflow: FakeWorkflow) -> None:
    child, of_child = lease_of()
    entry, of_entry = lease_of(path="main")
    await child.report()
    await entry.report()
    assert [(report.invocation, report.path) for report in of_child] == [("r/main/child-1", "main/child-1")]
    assert [(report.invocation, report.path) for report in of_entry] == [("r", "main")]


def test_what_calls_below_cost_adds_up_and_is_not_spent_again() -> None:
    lease, _ = lease_of()
    lease.add_below(Usage(cost_usd=Decimal("0.5"), unpriced=("p:b",), costs={"p:c": Decimal("0.5")}))
    lease.add_below(Usage(cost_usd=Decimal("0.25"), unpriced=("p:a",), costs={"p:c": Decimal("0.25")}))
    assert (lease.state.tree_cost, lease.state.tree_unpriced) == (Decimal("0.75"), ("p:a", "p:b"))
    assert lease.state.tree_costs == {"p:c": Decimal("0.75")}
    assert lease.state.spent == Amounts()
