"""Starting an invocation: every one is a child workflow, the entry worker included."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError
from temporalio.workflow import ParentClosePolicy

from llm_do_temporal.messages import (
    INVOCATION_MEMO,
    WORKER_WORKFLOW,
    InvocationMemo,
    InvocationResult,
    InvokeWorkerInput,
)
from llm_do_temporal.workflows.effects import await_op
from llm_do_temporal.workflows.failures import explain

_SUMMARY_CHARS = 200


async def run_invocation(invocation: InvokeWorkerInput) -> InvocationResult:
    """Run a worker to its end. Raises the error it ended with."""
    memo = InvocationMemo(
        path=invocation.path, worker=invocation.worker.name, depth=invocation.depth, model=invocation.model
    )
    starting: Coroutine[Any, Any, workflow.ChildWorkflowHandle[Any, InvocationResult]] = workflow.start_child_workflow(
        WORKER_WORKFLOW,
        invocation,
        id=f"{invocation.run}/{invocation.path}",
        result_type=InvocationResult,
        memo={INVOCATION_MEMO: memo},
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        static_summary=f"{invocation.path}: {_first_line(invocation)}"[:_SUMMARY_CHARS],
    )
    try:
        return await await_op(await await_op(asyncio.create_task(starting)))
    except ChildWorkflowError as error:
        raise explain(error) from error


def _first_line(invocation: InvokeWorkerInput) -> str:
    lines = invocation.prompt.strip().splitlines()
    return lines[0] if lines else invocation.worker.description
