"""Child workflows: every invocation is one, the entry worker's included."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ChildWorkflowError, TerminatedError
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.workflow import ParentClosePolicy

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.messages.approvals import WithdrawApprovalsInput
from llm_do_temporal.messages.base import INVOCATION_MEMO, WORKER_WORKFLOW
from llm_do_temporal.messages.budget import REPORT_SPENDING_SIGNAL
from llm_do_temporal.messages.definitions import CalledTemplate
from llm_do_temporal.messages.runs import InvocationMemo, InvocationResult, InvokeWorkerInput
from llm_do_temporal.messages.sizes import MAX_ID_CHARS, MAX_VALUE_BYTES, SUMMARY_CHARS
from llm_do_temporal.policy.budget.ledger import Report
from llm_do_temporal.policy.queues import fairness_key
from llm_do_temporal.workflows.runtime.activities import await_shielded, send_signal, withdraw
from llm_do_temporal.workflows.runtime.failures import explain

_WITHDRAWS = "withdraw-questions-of-closed-child"
"""Runs that started before this was done replay without it."""


async def run_invocation(invocation: InvokeWorkerInput) -> InvocationResult:
    """Run a worker to its end. Raises the error that ended it, or BudgetExceeded before it starts."""
    try:
        return await run_child(invocation)
    except ChildWorkflowError as error:
        workflow_id = workflow_id_of(invocation)
        if invocation.limited and "/" in invocation.path and isinstance(error.cause, TerminatedError):
            # It had no time to report its spending.
            await send_signal(invocation.run, REPORT_SPENDING_SIGNAL, lost(invocation))
        await _withdraw_questions(invocation.run, workflow_id, error)
        raise explain(error) from error


async def run_child(invocation: InvokeWorkerInput) -> InvocationResult:
    """Run a worker to its end. Raises Temporal's ChildWorkflowError, or BudgetExceeded before it starts."""
    workflow_id = workflow_id_of(invocation)
    _check_sendable(invocation, workflow_id)
    memo = InvocationMemo(
        path=invocation.path,
        worker=invocation.worker.name,
        depth=invocation.depth,
        model=invocation.model,
        template=_named(invocation.template),
    )
    starting: Coroutine[Any, Any, workflow.ChildWorkflowHandle[Any, InvocationResult]] = workflow.start_child_workflow(
        WORKER_WORKFLOW,
        invocation,
        id=workflow_id,
        result_type=InvocationResult,
        memo={INVOCATION_MEMO: memo},
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        static_summary=f"{invocation.path}: {_first_line(invocation)}"[:SUMMARY_CHARS],
        priority=_turn_of(invocation.run),
    )
    return await await_shielded(await await_shielded(asyncio.create_task(starting)))


def _named(template: CalledTemplate | None) -> CalledTemplate | None:
    """Return the template without parameters and input, for which a memo has no room."""
    return None if template is None else template.model_copy(update={"params": None, "input": None})


def _turn_of(run: str) -> Priority:
    """Return the priority of a run's children: all share the run's key, or the key it was started with, which they
    inherit."""
    return Priority(fairness_key=None if workflow.info().priority.fairness_key else fairness_key(run))


def workflow_id_of(invocation: InvokeWorkerInput) -> str:
    """Return the id of the invocation's workflow."""
    return f"{invocation.run}/{invocation.path}"


def lost(invocation: InvokeWorkerInput) -> Report:
    """Return the report of spending for an invocation that was ended from outside."""
    return Report(invocation=workflow_id_of(invocation), path=invocation.path, ended="lost")


def questions_of(workflow_id: str) -> WithdrawApprovalsInput:
    """Return the withdrawal of all questions of an invocation."""
    return WithdrawApprovalsInput(invocation=workflow_id, keys=(), closed=True)


def is_cut_off(error: ChildWorkflowError) -> bool:
    """Whether the child had no chance to send a signal when it ended."""
    return isinstance(error.cause, TerminatedError | TemporalTimeoutError)


async def _withdraw_questions(run: str, workflow_id: str, error: ChildWorkflowError) -> None:
    """Withdraw the questions of a child that had no chance to withdraw them itself."""
    # The desk's own child is the last one: the run ends with it, and so does all that is pending.
    if is_cut_off(error) and run != workflow.info().workflow_id and workflow.patched(_WITHDRAWS):
        await withdraw(run, questions_of(workflow_id))


def _check_sendable(invocation: InvokeWorkerInput, workflow_id: str) -> None:
    """Raise BudgetExceeded for a child that Temporal would neither start nor refuse, but try for ever."""
    name = invocation.worker.name
    size = len(invocation.model_dump_json())
    if size > MAX_VALUE_BYTES:
        raise BudgetExceeded(
            f"worker '{name}' would start with {size} bytes of instructions and input; at most {MAX_VALUE_BYTES} fit",
            next_step="Shorten its instructions, or hand over files as attachments.",
        )
    if len(workflow_id) > MAX_ID_CHARS:
        raise BudgetExceeded(f"worker '{name}' is too far down: its path has {len(invocation.path)} characters")


def _first_line(invocation: InvokeWorkerInput) -> str:
    lines = invocation.prompt.strip().splitlines()
    return lines[0] if lines else invocation.worker.description
