"""Child workflows, of which every delegated invocation and every item of a batch is one, and their way to the desk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ChildWorkflowError, FailureError, TerminatedError
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.workflow import ParentClosePolicy

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.messages.approvals import RequestApprovalInput, WithdrawApprovalsInput
from llm_do_temporal.messages.base import (
    INVOCATION_MEMO,
    REQUEST_APPROVAL_SIGNAL,
    TASK_TIMEOUT,
    WITHDRAW_APPROVALS_SIGNAL,
    WORKER_WORKFLOW,
)
from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL
from llm_do_temporal.messages.runs import (
    InvocationMemo,
    InvocationResult,
    InvokeWorkerInput,
    first_line,
    workflow_id_of,
)
from llm_do_temporal.messages.sizes import MAX_ID_CHARS, MAX_VALUE_BYTES, SUMMARY_CHARS
from llm_do_temporal.policy.budget import Report
from llm_do_temporal.policy.queues import fairness_key
from llm_do_temporal.workflows.runtime.activities import await_shielded, send_signal
from llm_do_temporal.workflows.runtime.failures import explain


class DeskLink(Protocol):
    """Link to the desk. The desk answers by methods of the invocation: `take_decision`, `show_votes`, `apply`."""

    async def ask(self, request: RequestApprovalInput) -> None:
        """Put a question to the desk; returns when the desk is sure to have it."""

    async def withdraw(self, withdrawal: WithdrawApprovalsInput) -> None:
        """Take questions back; a run that has ended needs no such news."""

    async def report(self, report: Report) -> None:
        """Report spending, of this invocation or of a callee that cannot report any more."""

    def show(self, details: str) -> None:
        """Show in the Temporal UI what the invocation waits for; empty: for nothing."""


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


async def run_invocation(invocation: InvokeWorkerInput, desk: DeskLink) -> InvocationResult:
    """Run a worker in a child workflow to its end. Raises the error that ended it, or BudgetExceeded before it starts.

    `desk` is told where the child had no chance to tell it anything.
    """
    try:
        return await run_child(invocation)
    except ChildWorkflowError as error:
        await tell_for_lost(invocation, error, desk)
        raise explain(error) from error


async def tell_for_lost(invocation: InvokeWorkerInput, error: ChildWorkflowError, desk: DeskLink) -> None:
    """Tell the desk what a child would have, that ended with this error and had no chance to."""
    workflow_id = workflow_id_of(invocation.run, invocation.path)
    if invocation.limited and isinstance(error.cause, TerminatedError):
        await desk.report(Report(invocation=workflow_id, path=invocation.path, ended="lost"))
    if isinstance(error.cause, TerminatedError | TemporalTimeoutError):
        await desk.withdraw(WithdrawApprovalsInput(invocation=workflow_id, keys=(), closed=True))


async def run_child(invocation: InvokeWorkerInput) -> InvocationResult:
    """Run a worker to its end. Raises Temporal's ChildWorkflowError, or BudgetExceeded before it starts."""
    workflow_id = workflow_id_of(invocation.run, invocation.path)
    check_sendable(invocation)
    about = first_line(invocation.prompt) or invocation.worker.description
    starting: Coroutine[Any, Any, workflow.ChildWorkflowHandle[Any, InvocationResult]] = workflow.start_child_workflow(
        WORKER_WORKFLOW,
        invocation,
        id=workflow_id,
        result_type=InvocationResult,
        task_timeout=TASK_TIMEOUT,
        memo={INVOCATION_MEMO: memo_of(invocation)},
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        static_summary=f"{invocation.path}: {about}"[:SUMMARY_CHARS],
        # All children share the run's key, or the key it was started with, which they inherit.
        priority=Priority(fairness_key=None if workflow.info().priority.fairness_key else fairness_key(invocation.run)),
    )
    return await await_shielded(await await_shielded(asyncio.create_task(starting)))


def memo_of(invocation: InvokeWorkerInput) -> InvocationMemo:
    """Return the memo of the invocation's workflow about it, without parameters and input: it has no room for them."""
    template = invocation.template
    return InvocationMemo(
        path=invocation.path,
        worker=invocation.worker.name,
        depth=invocation.depth,
        model=invocation.model,
        template=template and template.model_copy(update={"params": None, "input": None}),
        item=invocation.item[:SUMMARY_CHARS],
    )


def check_sendable(invocation: InvokeWorkerInput) -> None:
    """Raise BudgetExceeded for an invocation that Temporal would neither start nor refuse, but try for ever."""
    name = invocation.worker.name
    size = len(invocation.model_dump_json())
    if size > MAX_VALUE_BYTES:
        raise BudgetExceeded(
            f"worker '{name}' would start with {size} bytes of instructions and input; at most {MAX_VALUE_BYTES} fit",
            next_step="Shorten its instructions, or hand over files as attachments.",
        )
    if len(workflow_id_of(invocation.run, invocation.path)) > MAX_ID_CHARS:
        raise BudgetExceeded(f"worker '{name}' is too far down: its path has {len(invocation.path)} characters")
