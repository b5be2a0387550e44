"""What the server lists of a run: its memo, and what stands in the open where the memo cannot be read here."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from llm_do_temporal.client.views.run_view import pending_from_memo, run_from_memo
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.approvals import PendingApprovalMemo
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import RunMemo

_PENDING = SearchAttributeKey.for_int(PENDING_ATTRIBUTE)
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)


@dataclass(frozen=True)
class Listed:
    """What is known of a run without its history."""

    begun: RunMemo
    """Who started which worker; empty where nothing tells."""
    pending: tuple[PendingApprovalMemo, ...]
    """What waits for a person, as far as the memo has room for it and can be read."""
    waiting: int | None
    """How much waits for a person; None where nothing tells."""
    missing_key: str = ""
    """The id of the encryption key without which the memo cannot be read."""


async def read_memo(execution: WorkflowExecution) -> Listed:
    """What the memo tells. Raises KeyMismatch."""
    memo = await execution.memo()
    pending = pending_from_memo(memo.get(PENDING_MEMO)) if _is_open(execution) else []
    return Listed(run_from_memo(memo), tuple(pending), len(pending))


async def read_listed(execution: WorkflowExecution) -> Listed:
    """What the memo tells; where its key is missing, what the search attributes do."""
    try:
        return await read_memo(execution)
    except KeyMismatch as error:
        told = execution.typed_search_attributes
        waiting = told.get(_PENDING) if _is_open(execution) else 0
        return Listed(RunMemo(worker=told.get(_WORKER) or ""), (), waiting, missing_key=error.key)


def _is_open(execution: WorkflowExecution) -> bool:
    return execution.status is WorkflowExecutionStatus.RUNNING
