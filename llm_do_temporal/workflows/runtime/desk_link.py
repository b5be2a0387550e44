"""The link from an invocation to the desk of its run: near, in the same workflow, or far, over signals."""

from __future__ import annotations

from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.messages.approvals import RequestApprovalInput, WithdrawApprovalsInput
from llm_do_temporal.messages.base import REQUEST_APPROVAL_SIGNAL, WITHDRAW_APPROVALS_SIGNAL
from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL
from llm_do_temporal.policy.budget import Report
from llm_do_temporal.workflows.runtime.activities import send_signal


class DeskLink(Protocol):
    """Link to the desk. The desk answers by methods of the invocation: `take_decision`, `show_votes`, `apply`."""

    async def ask(self, request: RequestApprovalInput) -> None:
        """Put a question to the desk; returns when the desk is sure to have it."""
        ...

    async def withdraw(self, withdrawal: WithdrawApprovalsInput) -> None:
        """Take questions back; a run that has ended needs no such news."""
        ...

    async def report(self, report: Report) -> None:
        """Report spending, of this invocation or of a callee that cannot report any more."""
        ...

    def show(self, details: str) -> None:
        """Show in the Temporal UI what the invocation waits for; empty: for nothing."""
        ...


class FarDesk:
    """The desk of a run, in another workflow. See DeskLink."""

    def __init__(self, run: str) -> None:
        """`run` is the id of the run's workflow."""
        self._run = run

    async def ask(self, request: RequestApprovalInput) -> None:
        """See DeskLink."""
        await send_signal(self._run, REQUEST_APPROVAL_SIGNAL, request)

    async def withdraw(self, withdrawal: WithdrawApprovalsInput) -> None:
        """See DeskLink."""
        try:
            await send_signal(self._run, WITHDRAW_APPROVALS_SIGNAL, withdrawal)
        except FailureError:
            return

    async def report(self, report: Report) -> None:
        """See DeskLink."""
        try:
            await send_signal(self._run, REPORT_SPENDING_SIGNAL, report)
        except FailureError:
            # The run has ended before this invocation, which is about to be cancelled.
            workflow.logger.warning("the run's desk is closed; spending of %s was not reported", report.path)

    def show(self, details: str) -> None:
        """See DeskLink."""
        workflow.set_current_details(details)
