"""List of runs, in pages, with the usage of each; and one run as that list has it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import is_missing, translated
from llm_do_temporal.client.views.items import with_counts
from llm_do_temporal.client.views.memos import NEWEST_EXECUTION, RunListing, read_listing, read_memo, started_at
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent, quoted, state_of
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.messages.approvals import PendingApprovalMemo
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_ATTRIBUTE
from llm_do_temporal.messages.batches import ItemCounts
from llm_do_temporal.messages.runs import listed_worker

PAGE_RUNS = 25
STATES = {
    "open": "Running",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Canceled",
    "terminated": "Terminated",
    "timed out": "TimedOut",
}
"""States by which a list can be filtered, each with the server's name for it."""


@dataclass(frozen=True)
class ListedRun:
    """A run, as the server lists it."""

    run: str
    run_id: str
    worker: str
    started_by: str
    status: str
    """running, waiting, completed, failed, cancelled, terminated or timed out."""
    pending: tuple[PendingApprovalMemo, ...]
    """Questions that wait for a person, as far as they can be read."""
    waiting: int
    """Number of questions that wait for a person."""
    started_at: datetime
    ended_at: datetime | None
    items: ItemCounts | None = None
    """Counts of a batch; None for any other run, and where they cannot be read."""
    task: str = ""
    """First line of the prompt; empty where there is none, or it cannot be read."""
    missing_key: str = ""
    """The id of the encryption key without which no more can be told; empty: all could be read."""
    has_history: bool = True
    """Whether the server still has what happened; it removes a history a moment before the run leaves the list."""

    @property
    def state(self) -> str:
        """The status; of a batch with its counts, like `completed, 1 of 4 failed`."""
        return with_counts(self.status, self.items)


@dataclass(frozen=True)
class RunPage:
    """A part of the list."""

    runs: list[ListedRun]
    following: str | None
    """Token of the next page; None: there is no more."""


async def list_runs(client: Client, *, state: str = "", worker: str = "", begins: str = "", page: str = "") -> RunPage:
    """Runs in this state, of this worker, whose ids begin like this; open ones first, then those that ended last.

    `page` is `following` of the page before. Raises UsageError for a filter that cannot be used, ConnectionFailed.
    """
    listing = client.list_workflows(_query(state, worker, begins), page_size=PAGE_RUNS, next_page_token=_token(page))
    async with translated():
        await listing.fetch_next_page()
    found = [_run_of(execution, await read_listing(execution)) for execution in listing.current_page or ()]
    following = listing.next_page_token
    return RunPage(found, base64.urlsafe_b64encode(following).decode() if following else None)


async def read_run(client: Client, run: str) -> ListedRun:
    """Return one run as it is now. Raises UsageError where there is none, and KeyMismatch."""
    async with translated(run):
        description = await client.get_workflow_handle(run).describe()
        if description.workflow_type != RUN_WORKFLOW:
            raise UsageError(f"'{run}' is a workflow, and no run")
        return _run_of(description, await read_memo(description))


async def read_spent(accounts: Accounts, run: ListedRun) -> Spent:
    """Return the usage of a run so far, without delegations and items of a batch under way. Raises KeyMismatch."""
    async with translated():
        return await accounts.read_one(_as_branch(run))


async def read_all_spent(accounts: Accounts, runs: Sequence[ListedRun]) -> list[tuple[ListedRun, Spent]]:
    """The runs with what each has spent so far; nothing where its history cannot be read here, or is there no more."""
    async with translated():
        return await asyncio.gather(*(_with_spent(accounts, run) for run in runs))


async def _with_spent(accounts: Accounts, run: ListedRun) -> tuple[ListedRun, Spent]:
    try:
        return run, await accounts.read_one(_as_branch(run))
    except KeyMismatch as error:
        return replace(run, missing_key=error.key), Spent()
    except RPCError as error:
        if not is_missing(error):
            raise
        return replace(run, has_history=False), Spent()


def _as_branch(run: ListedRun) -> Branch:
    status = "running" if run.ended_at is None else run.status
    return Branch(run.run, run.run_id, "", run.worker, "", status, run.started_at, run.ended_at)


def _query(state: str, worker: str, begins: str) -> str:
    parts = [f"WorkflowType = '{RUN_WORKFLOW}'"]
    if state and state not in STATES:
        raise UsageError(f"there is no state '{state}'; there are {', '.join(STATES)}")
    parts.append(f"ExecutionStatus = '{STATES[state]}'" if state else NEWEST_EXECUTION)
    if worker:
        parts.append(f"{WORKER_ATTRIBUTE} = '{quoted(listed_worker(worker))}'")
    if begins:
        parts.append(f"WorkflowId STARTS_WITH '{quoted(begins)}'")
    return " AND ".join(parts)


def _token(page: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(page) or None
    except (binascii.Error, ValueError) as error:
        raise UsageError("this address does not name a part of the list") from error


def _run_of(execution: WorkflowExecution, listed: RunListing) -> ListedRun:
    return ListedRun(
        run=execution.id,
        run_id=execution.run_id,
        worker=listed.begun.worker,
        started_by=listed.begun.started_by,
        status="waiting" if listed.waiting else state_of(execution),
        pending=listed.pending,
        waiting=listed.waiting or 0,
        started_at=started_at(execution, listed),
        ended_at=execution.close_time,
        items=listed.begun.items,
        task=listed.begun.task,
        missing_key=listed.missing_key,
    )
