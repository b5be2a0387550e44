"""The inbox: what waits for people in all open runs, from one listing of the server alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client

from llm_do_temporal.client.view import pending_from_memo, run_from_memo
from llm_do_temporal.messages import PENDING_MEMO, RUN_WORKFLOW


@dataclass(frozen=True)
class InboxEntry:
    """One question that waits for a person, as the memo of its run tells it."""

    run: str
    run_worker: str
    """The run's entry worker."""
    started_by: str
    id: str
    worker: str
    """The worker that asks."""
    path: str
    tool: str
    summary: str
    """One line."""
    asked_at: datetime
    deadline: datetime | None
    """When it is decided without a person; None: never."""
    votes: int
    """How many have agreed so far, of `quorum`."""
    quorum: int
    approvers: tuple[str, ...]
    """Who may decide; empty for everybody."""


async def read_inbox(client: Client) -> list[InboxEntry]:
    """The questions of all open runs, oldest first; of each run those that its memo has room for. Raises RPCError."""
    found: list[InboxEntry] = []
    query = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"
    async for execution in client.list_workflows(query):
        memo = await execution.memo()
        begun = run_from_memo(memo)
        found += [
            InboxEntry(
                run=execution.id,
                run_worker=begun.worker,
                started_by=begun.started_by,
                id=one.id,
                worker=one.worker,
                path=one.path,
                tool=one.tool,
                summary=one.summary,
                asked_at=one.asked_at,
                deadline=one.deadline,
                votes=one.votes,
                quorum=one.quorum,
                approvers=one.approvers,
            )
            for one in pending_from_memo(memo.get(PENDING_MEMO))
        ]
    return sorted(found, key=lambda one: one.asked_at)
