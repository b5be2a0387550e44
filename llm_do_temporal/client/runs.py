"""`LlmDoClient`: start runs, watch them, answer their approvals."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from pydantic import ValidationError
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.batches import read_unfinished
from llm_do_temporal.client.connecting import OUT_OF_REACH, out_of_reach
from llm_do_temporal.client.following import Follower
from llm_do_temporal.client.histories import read_events
from llm_do_temporal.client.questions import PendingApproval, read_pending
from llm_do_temporal.client.view import RunView, pending_from_memo
from llm_do_temporal.errors import (
    ConnectionFailed,
    DecisionRefused,
    LlmDoError,
    RunCancelled,
    RunFailed,
    UsageError,
    rebuild_error,
)
from llm_do_temporal.messages import (
    DECIDE_SIGNAL,
    DECIDE_UPDATE,
    DESK_QUERY,
    PENDING_MEMO,
    RUN_MEMO,
    RUN_WORKFLOW,
    TASK_QUEUE,
    Approval,
    Decision,
    DeskState,
    PendingApprovalMemo,
    RunMemo,
    RunResult,
    StartRunInput,
)

_SUMMARY_CHARS = 200
UPDATE_SECONDS = 8
"""How long a decision waits for a worker service to answer before it is sent as a signal instead."""


@dataclass(frozen=True)
class RunSummary:
    """One line of the list of runs."""

    run: str
    worker: str
    status: str
    """running, waiting, completed, failed, cancelled, terminated or timed out."""
    pending: int
    started_at: datetime
    ended_at: datetime | None


class LlmDoClient:
    """All that can be done to runs. Methods raise LlmDoError; an unknown run is a UsageError."""

    def __init__(self, temporal: Client, *, task_queue: str = TASK_QUEUE) -> None:
        self.temporal = temporal
        self._task_queue = task_queue

    @property
    def takes_big_values(self) -> bool:
        """Whether this client knows where values are kept that are too big for Temporal."""
        return self.temporal.data_converter.external_storage is not None

    async def start(self, request: StartRunInput, *, run: str | None = None) -> str:
        """Start a run and return its id. Raises UsageError when the id is taken."""
        run = run or f"{request.worker.replace(':', '-').replace('/', '-')}-{secrets.token_hex(4)}"
        if "/" in run:
            raise UsageError(f"the run id '{run}' contains '/', which separates a run from its invocations")
        try:
            async with _asked():
                await self.temporal.start_workflow(
                    RUN_WORKFLOW,
                    request,
                    id=run,
                    task_queue=self._task_queue,
                    memo={RUN_MEMO: RunMemo(worker=request.worker, started_by=request.started_by)},
                    static_summary=f"{request.worker}: {_first_line(request.prompt)}"[:_SUMMARY_CHARS],
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                )
        except WorkflowAlreadyStartedError as error:
            raise UsageError(f"there is already a run '{run}'; choose another id") from error
        return run

    async def result(self, run: str) -> RunResult:
        """Wait for the run and return its result. Raises the error it ended with."""
        try:
            async with _asked(run):
                value: Any = await self._handle(run).result()
        except WorkflowFailureError as failure:
            raise _ended_with(failure) from failure
        return RunResult.model_validate(value)

    async def unfinished(self, run: str) -> StartRunInput:
        """How a batch was started, with those of its items only that have not completed. Raises UsageError."""
        async with _asked(run):
            return await read_unfinished(self.temporal, run)

    async def cancel(self, run: str) -> None:
        """Ask the run, and everything below it, to stop."""
        async with _asked(run):
            await self._handle(run).cancel()

    async def runs(self, *, limit: int = 50) -> list[RunSummary]:
        """The newest runs first."""
        found: list[RunSummary] = []
        async with _asked():
            async for execution in self.temporal.list_workflows(f"WorkflowType = '{RUN_WORKFLOW}'", limit=limit):
                memo = await execution.memo()
                pending = _pending(memo) if execution.status is WorkflowExecutionStatus.RUNNING else []
                found.append(
                    RunSummary(
                        run=execution.id,
                        worker=_run_memo(memo).worker,
                        status="waiting" if pending else _status(execution.status),
                        pending=len(pending),
                        started_at=execution.start_time,
                        ended_at=execution.close_time,
                    )
                )
        return found

    async def status(self, run: str) -> RunSummary:
        """Where one run stands."""
        async with _asked(run):
            description = await self._handle(run).describe()
            memo = await description.memo()
        running = description.status is WorkflowExecutionStatus.RUNNING
        pending = _pending(memo) if running else []
        return RunSummary(
            run=run,
            worker=_run_memo(memo).worker,
            status="waiting" if pending else _status(description.status),
            pending=len(pending),
            started_at=description.start_time,
            ended_at=description.close_time,
        )

    async def approvals(self, run: str | None = None) -> list[PendingApproval]:
        """What waits for a person, oldest first; of one run, or of all. Needs no worker service."""
        found: list[PendingApproval] = []
        for each in [run] if run is not None else await self._open_runs():
            async with _asked(each):
                found += await self._approvals_of(each)
        return sorted(found, key=lambda one: one.asked_at)

    async def decide(self, run: str, decision: Decision) -> Approval | None:
        """Take a decision. None: it was sent, but no worker service answered yet. Raises DecisionRefused."""
        handle = self._handle(run)
        # Who cannot read the run has not its keys: what is sent would be in the open, or unreadable for the run.
        await self.status(run)
        try:
            async with _asked(run):
                return await handle.execute_update(
                    DECIDE_UPDATE, decision, result_type=Approval, rpc_timeout=timedelta(seconds=UPDATE_SECONDS)
                )
        except WorkflowUpdateFailedError as failure:
            message = str(failure.cause or failure)
            if isinstance(failure.cause, ApplicationError):
                message = failure.cause.message
            raise DecisionRefused(message) from failure
        except UsageError as error:
            # The server says "not found" of a run that has ended, too.
            summary = await self.status(run)
            raise DecisionRefused(f"run '{run}' has ended: {summary.status}; nothing waits for a decision") from error
        except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError):
            async with _asked(run):
                await handle.signal(DECIDE_SIGNAL, decision)
            return None

    async def desk(self, run: str) -> DeskState:
        """All approvals of a run, decided or not, grants, and ignored decisions. Needs a worker service."""
        async with _asked(run):
            return await self._handle(run).query(DESK_QUERY, result_type=DeskState)

    async def view(self, run: str) -> RunView:
        """The run as its histories tell it now."""
        follower = Follower(self.temporal, run, wait=False)
        async with _asked(run):
            async for _ in follower.events():
                pass
        return follower.view

    def follow(self, run: str) -> Follower:
        """A follower of the run; iterate its `events()` and look at its `view`."""
        return Follower(self.temporal, run, wait=True)

    def _handle(self, run: str) -> WorkflowHandle[Any, Any]:
        return self.temporal.get_workflow_handle(run)

    async def _open_runs(self) -> list[str]:
        query = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"
        async with _asked():
            return [
                execution.id
                async for execution in self.temporal.list_workflows(query)
                if _pending(await execution.memo())
            ]

    async def _approvals_of(self, run: str) -> list[PendingApproval]:
        handle = self._handle(run)
        description = await handle.describe()
        if description.status is not WorkflowExecutionStatus.RUNNING:
            return []
        events = read_events(handle, wait=False, converter=self.temporal.data_converter)
        return await read_pending(self.temporal, run, events)


@asynccontextmanager
async def _asked(run: str | None = None) -> AsyncGenerator[None]:
    """Turn what the server says into our errors."""
    try:
        yield
    except RuntimeError as error:
        if OUT_OF_REACH not in str(error):
            raise
        raise out_of_reach() from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and run is not None:
            raise UsageError(
                f"there is no run '{run}'", next_step="`llm-do-temporal list` shows the runs of this server."
            ) from error
        if error.status is RPCStatusCode.UNAVAILABLE:
            raise ConnectionFailed(f"the Temporal server does not answer: {error}") from error
        raise ConnectionFailed(f"the Temporal server refused: {error}") from error


def _ended_with(failure: WorkflowFailureError) -> LlmDoError:
    cause = failure.cause
    if isinstance(cause, CancelledError):
        return RunCancelled("the run was cancelled")
    if isinstance(cause, TerminatedError):
        return RunCancelled(f"the run was terminated: {cause.message}")
    if isinstance(cause, ApplicationError):
        details = cast("dict[str, Any]", cause.details[0]) if cause.details else {}
        known = rebuild_error(cause.type, cause.message, details.get("next_step"))
        return known or RunFailed(cause.message)
    return RunFailed(str(cause or failure))


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def _pending(memo: Any) -> list[PendingApprovalMemo]:
    return pending_from_memo(memo.get(PENDING_MEMO))


def _run_memo(memo: Any) -> RunMemo:
    try:
        return RunMemo.model_validate(memo.get(RUN_MEMO) or {"worker": ""})
    except ValidationError:
        return RunMemo(worker="")


def _status(status: WorkflowExecutionStatus | None) -> str:
    names = {
        WorkflowExecutionStatus.RUNNING: "running",
        WorkflowExecutionStatus.COMPLETED: "completed",
        WorkflowExecutionStatus.FAILED: "failed",
        WorkflowExecutionStatus.CANCELED: "cancelled",
        WorkflowExecutionStatus.TERMINATED: "terminated",
        WorkflowExecutionStatus.TIMED_OUT: "timed out",
        WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
    }
    return names.get(status, "unknown") if status is not None else "unknown"
