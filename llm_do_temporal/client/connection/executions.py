"""Updates and signals for the execution of a run that was read, and for no later one with its id."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import WorkflowNotReady, is_missing, translated
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Approval, Decision, RevokeGrantInput, UndoInput

UPDATE_SECONDS = 8
"""Seconds for which a decision waits for the answer of a worker service before it is sent as a signal instead."""


async def update_read(
    client: Client, read: WorkflowExecutionInfo, update: str, message: Decision | UndoInput
) -> Approval | None:
    """Return the answer of the desk to an update; None where no worker service answers.

    Raises DecisionRefused, and UsageError where the run is no longer there.
    """
    run = read.execution.workflow_id
    handle = client.get_workflow_handle(run, first_execution_run_id=read.first_run_id or None)
    try:
        async with translated(run):
            return await handle.execute_update(
                update, message, result_type=Approval, rpc_timeout=timedelta(seconds=UPDATE_SECONDS)
            )
    except WorkflowUpdateFailedError as failure:
        text = str(failure.cause or failure)
        if isinstance(failure.cause, ApplicationError):
            text = failure.cause.message
        raise DecisionRefused(text) from failure
    except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError, WorkflowNotReady):
        return None


async def signal_read(
    client: Client, read: WorkflowExecutionInfo, signal: str, message: Decision | UndoInput | RevokeGrantInput
) -> None:
    """Signal the run. Raises UsageError where it is no longer there.

    A signal names one part of a run that was continued as new; where there is a newer one, it goes there.
    """
    run, part = read.execution.workflow_id, read.execution.run_id
    async with translated(run):
        while True:
            try:
                await client.get_workflow_handle(run, run_id=part).signal(signal, message)
            except RPCError as error:
                now = (await client.get_workflow_handle(run).describe()).raw_info if is_missing(error) else read
                if now.execution.run_id == part or now.first_run_id != read.first_run_id:
                    raise
                part = now.execution.run_id
            else:
                return
