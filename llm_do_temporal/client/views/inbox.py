"""The inbox: what waits for people in all open runs, from one listing of the server alone.

A run whose memo is encrypted with a key that is missing here is told of, and does not hide the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client, WorkflowExecution

from llm_do_temporal.client.views.memos import Listed, read_listed
from llm_do_temporal.messages.base import RUN_WORKFLOW


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


@dataclass(frozen=True)
class LockedRun:
    """An open run that waits for a person, or may, and cannot be read here: the key it is encrypted with is missing."""

    run: str
    worker: str
    """Empty where nothing tells."""
    waiting: int | None
    """How much waits for a person; None where nothing tells."""
    started_at: datetime
    missing_key: str
    """Its id."""

    @classmethod
    def of(cls, execution: WorkflowExecution, listed: Listed) -> LockedRun:
        """What is known of the run without its key."""
        return cls(execution.id, listed.begun.worker, listed.waiting, execution.start_time, listed.missing_key)


@dataclass(frozen=True)
class InboxContents:
    """What waits in all open runs."""

    entries: list[InboxEntry]
    """Oldest first; of each run those that its memo has room for."""
    locked: list[LockedRun]


async def read_inbox(client: Client) -> InboxContents:
    """What waits in all open runs. Raises RPCError."""
    found = InboxContents([], [])
    async for execution, listed in waiting_runs(client):
        if listed.missing_key:
            found.locked.append(LockedRun.of(execution, listed))
        found.entries.extend(
            InboxEntry(
                run=execution.id,
                run_worker=listed.begun.worker,
                started_by=listed.begun.started_by,
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
            for one in listed.pending
        )
    found.entries.sort(key=lambda one: one.asked_at)
    return found


async def waiting_runs(client: Client) -> AsyncIterator[tuple[WorkflowExecution, Listed]]:
    """The open runs that wait for a person, and those that cannot be read and may wait. Raises RPCError."""
    async for execution in client.list_workflows(f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"):
        listed = await read_listed(execution)
        if listed.waiting != 0:
            yield execution, listed
