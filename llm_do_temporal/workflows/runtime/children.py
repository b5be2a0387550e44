"""Child workflows: every delegated invocation is one, and every item of a batch."""

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
from llm_do_temporal.messages.base import INVOCATION_MEMO, TASK_TIMEOUT, WORKER_WORKFLOW
from llm_do_temporal.messages.definitions import CalledTemplate
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
from llm_do_temporal.workflows.runtime.activities import await_shielded
from llm_do_temporal.workflows.runtime.desk_link import DeskLink
from llm_do_temporal.workflows.runtime.failures import explain


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
    starting: Coroutine[Any, Any, workflow.ChildWorkflowHandle[Any, InvocationResult]] = workflow.start_child_workflow(
        WORKER_WORKFLOW,
        invocation,
        id=workflow_id,
        result_type=InvocationResult,
        task_timeout=TASK_TIMEOUT,
        memo={INVOCATION_MEMO: memo_of(invocation)},
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        static_summary=f"{invocation.path}: {_first_line(invocation)}"[:SUMMARY_CHARS],
        priority=_turn_of(invocation.run),
    )
    return await await_shielded(await await_shielded(asyncio.create_task(starting)))


def memo_of(invocation: InvokeWorkerInput) -> InvocationMemo:
    """Return the memo of the invocation's workflow about it."""
    return InvocationMemo(
        path=invocation.path,
        worker=invocation.worker.name,
        depth=invocation.depth,
        model=invocation.model,
        template=_named(invocation.template),
        item=invocation.item[:SUMMARY_CHARS],
    )


def _named(template: CalledTemplate | None) -> CalledTemplate | None:
    """Return the template without parameters and input, for which a memo has no room."""
    return None if template is None else template.model_copy(update={"params": None, "input": None})


def _turn_of(run: str) -> Priority:
    """Return the priority of a run's children: all share the run's key, or the key it was started with, which they
    inherit."""
    return Priority(fairness_key=None if workflow.info().priority.fairness_key else fairness_key(run))


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


def _first_line(invocation: InvokeWorkerInput) -> str:
    return first_line(invocation.prompt) or invocation.worker.description
