"""Memos of runs as the server lists them, and search attributes in the open where a memo cannot be read here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from llm_do_temporal.client.views.run_view import pending_from_memo, run_from_memo
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.approvals import PendingApprovalMemo
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import RunMemo

NEWEST_EXECUTION = "ExecutionStatus != 'ContinuedAsNew'"
"""Condition of a query with which a workflow that was continued as new is listed once."""
_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)


@dataclass(frozen=True)
class RunListing:
    """Facts about a run that are known without its history."""

    begun: RunMemo
    """Worker of the run, and the person who started it; empty where nothing tells."""
    pending: tuple[PendingApprovalMemo, ...]
    """Questions that wait for a person, as far as the memo has room for them and can be read."""
    waiting: int | None
    """Number of questions that wait; None where nothing tells."""
    missing_key: str = ""
    """The id of the encryption key without which the memo cannot be read."""


async def read_memo(execution: WorkflowExecution) -> RunListing:
    """Return the facts in the memo. Raises KeyMismatch."""
    memo = await execution.memo()
    pending = pending_from_memo(memo.get(PENDING_MEMO)) if _is_open(execution) else []
    return RunListing(run_from_memo(memo), tuple(pending), len(pending))


async def read_listing(execution: WorkflowExecution) -> RunListing:
    """Return the facts in the memo; where its key is missing, those in the search attributes."""
    try:
        return await read_memo(execution)
    except KeyMismatch as error:
        told = execution.typed_search_attributes
        waiting = told.get(_PENDING) if _is_open(execution) else 0
        return RunListing(RunMemo(worker=told.get(_WORKER) or ""), (), waiting, missing_key=error.key)


def started_at(execution: WorkflowExecution, listed: RunListing) -> datetime:
    """Return the start of the run: that of its first execution, where it was continued as new."""
    return listed.begun.started_at or execution.start_time


def _is_open(execution: WorkflowExecution) -> bool:
    return execution.status is WorkflowExecutionStatus.RUNNING
