"""A child that was ended from outside says nothing any more: its caller speaks for it."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import ApplicationError, CancelledError, ChildWorkflowError, RetryState, TerminatedError

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import WithdrawApprovalsInput
from llm_do_temporal.messages.base import REQUEST_APPROVAL_SIGNAL, WITHDRAW_APPROVALS_SIGNAL
from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL
from llm_do_temporal.policy.budget import Dimension, Report
from llm_do_temporal.workflows.runtime.children import FarDesk, run_invocation
from tests.support.workflow.desk_questions import write
from tests.support.workflow.fake_workflow import FakeWorkflow
from tests.support.workflow.invocations import invocation

LIMITED = (Dimension.TURNS,)


def child_failed(cause: Exception) -> ChildWorkflowError:
    failed = ChildWorkflowError(
        "Child Workflow execution failed",
        namespace="default",
        workflow_id="r/main/child-1",
        run_id="1",
        workflow_type="LlmDoWorker",
        initiated_event_id=1,
        started_event_id=2,
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    failed.__cause__ = cause
    return failed


async def failed_child(monkeypatch: pytest.MonkeyPatch, cause: Exception, **fields: Any) -> None:
    async def start(*_arguments: Any, **_options: Any) -> Any:
        raise child_failed(cause)

    monkeypatch.setattr(workflow, "start_child_workflow", start)
    with pytest.raises(LlmDoError):
        await run_invocation(invocation(**fields), FarDesk("r"))


async def test_what_a_terminated_child_held_is_reported_as_lost(
    fake_workflow: FakeWorkflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed_child(monkeypatch, TerminatedError("enough"), path="main/child-1", limited=LIMITED)
    lost, withdrawn = fake_workflow.signals_to("r")
    assert lost == Report(invocation="r/main/child-1", path="main/child-1", ended="lost")
    assert isinstance(withdrawn, WithdrawApprovalsInput)
    assert withdrawn.invocation == "r/main/child-1"


@pytest.mark.parametrize(
    ("cause", "fields"),
    [
        (TerminatedError("enough"), {"path": "main/child-1"}),  # no limits: nobody counts
        (CancelledError("stop"), {"path": "main/child-1", "limited": LIMITED}),  # it had time to say so itself
        (ApplicationError("no", type="ModelFailed"), {"path": "main/child-1", "limited": LIMITED}),
    ],
)
async def test_nothing_is_reported_for_a_child_that_could_or_need_not(
    fake_workflow: FakeWorkflow, monkeypatch: pytest.MonkeyPatch, cause: Exception, fields: dict[str, Any]
) -> None:
    await failed_child(monkeypatch, cause, **fields)
    assert not [signal for signal in fake_workflow.signals_to("r") if isinstance(signal, Report)]


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
