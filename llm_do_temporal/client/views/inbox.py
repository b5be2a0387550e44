"""Inbox: questions that wait for people in all open runs, from one listing of the server alone.

A run whose memo is encrypted with a key that is missing here is listed as locked, and does not hide the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import refuses_attributes
from llm_do_temporal.client.views.memos import ANSWERED_RUNS, KnownMemos, RunListing, started_at
from llm_do_temporal.client.views.oldest_runs import MOST_RUNS, OldestRuns
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.messages.approvals import PendingApprovalMemo
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, RUN_WORKFLOW
from llm_do_temporal.messages.runs import RunMemo

_OPEN = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running'"
_WAITING = f"{_OPEN} AND ({PENDING_ATTRIBUTE} > 0 OR {PENDING_ATTRIBUTE} IS NULL)"
"""A run has no such attribute if it was loaded before the namespace knew it; its memo tells."""


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
    """Runs that cannot be read here."""
    further: int = 0
    """Number of younger runs that wait for people, too, and were not read."""


class InboxReader:
    """Reads the inbox. Remembers what it has read, so that the next reading is quick."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known = KnownMemos()
        self._oldest = OldestRuns()

    async def read(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """Return the questions that wait in all open runs, or in one. Raises RPCError.

        Where more than MOST_RUNS are open, only the questions of those that began first, unless the `whole` is wanted.
        """
        if run is not None:
            return await self._contents(f"{_OPEN} AND WorkflowId = '{quoted(run)}'", is_whole=False)
        if whole or (await self._client.count_workflows(_OPEN)).count <= MOST_RUNS:
            return await self._contents(_OPEN)
        try:
            until, further = await self._oldest.find(self._count, datetime.now(UTC))
        except RPCError as error:
            if not refuses_attributes(error):
                raise
            return await self._contents(_OPEN)
        contents = await self._contents(_up_to(until), limit=MOST_RUNS)
        return replace(contents, further=further)

    async def _contents(self, query: str, *, limit: int | None = None, is_whole: bool = True) -> InboxContents:
        found = InboxContents([], [])
        listed_now: set[str] = set()
        async for execution in self._client.list_workflows(query, page_size=limit or ANSWERED_RUNS, limit=limit):
            listed = await self._known.read(execution)
            listed_now.add(execution.run_id)
            if listed.missing_key and listed.waiting != 0:
                found.locked.append(LockedRun.of(execution, listed))
            found.entries.extend(_entry(execution.id, listed.begun, one) for one in listed.pending)
        if is_whole:
            self._known.keep(listed_now)
        found.entries.sort(key=lambda one: one.asked_at)
        return found

    async def _count(self, until: datetime | None) -> int:
        return (await self._client.count_workflows(_up_to(until))).count


def _up_to(until: datetime | None) -> str:
    """Return the query of the runs that wait and began up to a time, which is in UTC; None: of all that wait."""
    return _WAITING if until is None else f"{_WAITING} AND StartTime <= '{until:%Y-%m-%dT%H:%M:%S.%fZ}'"


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
