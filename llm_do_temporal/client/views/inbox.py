"""Inbox: questions that wait for people in all open runs, from one listing of the server alone.

A run whose memo is encrypted with a key that is missing here is listed as locked, and does not hide the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client, WorkflowExecution

from llm_do_temporal.client.views.memos import RunListing, read_listing, started_at
from llm_do_temporal.messages.base import RUN_WORKFLOW


@dataclass(frozen=True)
class InboxEntry:
    """Question that waits for a person, as the memo of its run tells it."""

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
    """Summary of the call, in one line."""
    asked_at: datetime
    deadline: datetime | None
    """Time at which the question is decided without a person; None: never."""
    votes: int
    """Number of people who have agreed so far, of `quorum`."""
    quorum: int
    approvers: tuple[str, ...]
    """People who may decide; empty for everybody."""


@dataclass(frozen=True)
class LockedRun:
    """An open run that waits for a person, or may, and cannot be read here: the key it is encrypted with is missing."""

    run: str
    worker: str
    """Name of the entry worker; empty where nothing tells."""
    waiting: int | None
    """Number of questions that wait; None where nothing tells."""
    started_at: datetime
    missing_key: str
    """Id of the missing key."""

    @classmethod
    def of(cls, execution: WorkflowExecution, listed: RunListing) -> LockedRun:
        """Return the facts that are known of the run without its key."""
        return cls(execution.id, listed.begun.worker, listed.waiting, started_at(execution, listed), listed.missing_key)


@dataclass(frozen=True)
class InboxContents:
    """Questions that wait in all open runs."""

    entries: list[InboxEntry]
    """Questions, oldest first; of each run those that its memo has room for."""
    locked: list[LockedRun]


async def read_inbox(client: Client) -> InboxContents:
    """Return the questions that wait in all open runs. Raises RPCError."""
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


async def waiting_runs(client: Client) -> AsyncIterator[tuple[WorkflowExecution, RunListing]]:
    """Yield the open runs that wait for a person, and those that cannot be read and may wait. Raises RPCError."""
    async for execution in client.list_workflows(f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"):
        listed = await read_listing(execution)
        if listed.waiting != 0:
            yield execution, listed
