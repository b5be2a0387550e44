"""An invocation in a workflow of its own tells its desk by signals, and shows in its own details what it waits for."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.messages.approvals import WithdrawApprovalsInput
from llm_do_temporal.messages.base import REQUEST_APPROVAL_SIGNAL, WITHDRAW_APPROVALS_SIGNAL
from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL
from llm_do_temporal.policy.budget import Report
from llm_do_temporal.workflows.runtime.children import FarDesk
from tests.support.workflow.desk_questions import write
from tests.support.workflow.fake_workflow import FakeWorkflow

CHILD = "r/main/child-1"
QUESTION = write(invocation=CHILD)
WITHDRAWAL = WithdrawApprovalsInput(invocation=CHILD, keys=("1",))
REPORT = Report(invocation=CHILD, path="main/child-1")


async def test_the_desk_is_told_by_signals_to_the_run_in_order(fake_workflow: FakeWorkflow) -> None:
    desk = FarDesk("r")
    await desk.ask(QUESTION)
    await desk.report(REPORT)
    await desk.withdraw(WITHDRAWAL)
    assert fake_workflow.signals == [
        ("r", REQUEST_APPROVAL_SIGNAL, QUESTION),
        ("r", REPORT_SPENDING_SIGNAL, REPORT),
        ("r", WITHDRAW_APPROVALS_SIGNAL, WITHDRAWAL),
    ]
    assert fake_workflow.recorded == []


async def test_what_is_waited_for_is_shown_in_the_details_of_the_own_workflow(fake_workflow: FakeWorkflow) -> None:
    FarDesk("r").show("Waiting for approval: write a.txt")
    assert fake_workflow.details == ["Waiting for approval: write a.txt"]


async def test_a_question_that_no_desk_takes_fails(fake_workflow: FakeWorkflow) -> None:
    fake_workflow.refuses = lambda _: ApplicationError("closed")
    with pytest.raises(ApplicationError, match="closed"):
        await FarDesk("r").ask(QUESTION)


async def test_a_desk_that_is_closed_needs_no_other_news(
    fake_workflow: FakeWorkflow, caplog: pytest.LogCaptureFixture
) -> None:
    fake_workflow.refuses = lambda _: ApplicationError("closed")
    desk = FarDesk("r")
    await desk.withdraw(WITHDRAWAL)
    await desk.report(REPORT)
    assert fake_workflow.signals == []
    assert "spending of main/child-1 was not reported" in caplog.text
