"""Inbox: questions that wait for people in all open runs, from one listing of the server alone.

A run whose memo is encrypted with a key that is missing here is listed as locked, and does not hide the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client, WorkflowExecution

from llm_do_temporal.client.views.memos import KnownMemos, RunListing, started_at
from llm_do_temporal.messages.approvals import PendingApprovalMemo
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import RunMemo


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


async def read_inbox(client: Client, known: KnownMemos) -> InboxContents:
    """Return the questions that wait in all open runs; `known` are memos of earlier readings. Raises RPCError."""
    found = InboxContents([], [])
    listed_now: set[str] = set()
    async for execution in client.list_workflows(f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"):
        listed = await known.read(execution)
        listed_now.add(execution.run_id)
        if listed.missing_key and listed.waiting != 0:
            found.locked.append(LockedRun.of(execution, listed))
        found.entries.extend(_entry(execution.id, listed.begun, one) for one in listed.pending)
    known.keep(listed_now)
    found.entries.sort(key=lambda one: one.asked_at)
    return found


def _entry(run: str, begun: RunMemo, one: PendingApprovalMemo) -> InboxEntry:
    return InboxEntry(
        run=run,
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
