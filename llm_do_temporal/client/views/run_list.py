"""List of runs, in pages, with the usage of each; and one run as that list has it.

Pages are keysets: the server goes on after the time and the id at which the page before has ended, however many runs
begin or end meanwhile. Nothing is looked up run by run; the memo says what a filter asks.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import is_missing, translated
from llm_do_temporal.client.views.items import with_counts
from llm_do_temporal.client.views.memos import (
    ANSWERED_RUNS,
    NEWEST_EXECUTION,
    RunListing,
    read_listing,
    read_memo,
    started_at,
)
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent, quoted, state_of
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_ATTRIBUTE
from llm_do_temporal.messages.batches import ItemCounts
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo, listed_worker
from llm_do_temporal.policy.run_filter import RunFilter

PAGE_RUNS = 25
MOST_LOOKED_AT = 1_000
"""Runs whose memos are read for one page, where the server alone cannot tell which pass."""
_LOOKED_AT_ONCE = 100
_STATES = {
    "open": "Running",
    "running": "Running",
    "waiting": "Running",
    "completed": "Completed",
    "partly failed": "Completed",
    "failed": "Failed",
    "cancelled": "Canceled",
    "terminated": "Terminated",
    "timed out": "TimedOut",
}
"""States by which a list can be filtered, each with the server's name for it."""
_EVERY = RunFilter()


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
    looked_at: int | None = None
    """Number of runs that were looked at for this page; None: the server alone has judged."""
    locked: int = 0
    """Runs among them whose memo cannot be read here, so that the filter leaves them out."""


async def list_runs(client: Client, wanted: RunFilter = _EVERY, *, page: str = "") -> RunPage:
    """Runs that pass the filter; open ones first, then those that ended last.

    `page` is `following` of the page before. Where the server alone cannot judge, up to MOST_LOOKED_AT runs are looked
    at, so that a page may have fewer runs than there are. Raises UsageError for a page that is none, ConnectionFailed.
    """
    query, (token, after) = _query(wanted), _place(page)
    if not wanted.needs_memo:
        found, following = await _part(client, query, token, PAGE_RUNS)
        return RunPage([(await _read(one))[0] for one in found], _address(following, ""))
    runs: list[ListedRun] = []
    looked_at = locked = 0
    while looked_at < MOST_LOOKED_AT:
        found, following = await _part(client, query, token, _LOOKED_AT_ONCE)
        seen = [one.run_id for one in found]
        rest = found[seen.index(after) + 1 :] if after in seen else found
        for number, one in enumerate(rest, start=1):
            run, begun = await _read(one)
            looked_at += 1
            locked += bool(run.missing_key)
            if _passes(wanted, run, begun):
                runs.append(run)
            if len(runs) == PAGE_RUNS and (following is not None or number < len(rest)):
                return RunPage(runs, _address(token, run.run_id), looked_at, locked)
        if following is None:
            return RunPage(runs, None, looked_at, locked)
        token, after = following, ""
    return RunPage(runs, _address(token, ""), looked_at, locked)


async def every_run(client: Client, wanted: RunFilter = _EVERY, *, limit: int) -> AsyncIterator[ListedRun]:
    """Yield the first runs that pass the filter, however many must be looked at. Raises ConnectionFailed."""
    # Left alone, the server would read a thousand, whatever the limit.
    most = None if wanted.needs_memo else limit
    size = ANSWERED_RUNS if wanted.needs_memo else min(limit, ANSWERED_RUNS)
    found = 0
    async with translated():
        async for execution in client.list_workflows(_query(wanted), page_size=size, limit=most):
            listed = await read_listing(execution)
            run = listed_run(execution, listed)
            if _passes(wanted, run, listed.begun):
                yield run
                found += 1
            if found == limit:
                return


def read_filter(given: Mapping[str, Any]) -> RunFilter:
    """Return the filter of an address or of flags. Raises UsageError."""
    try:
        return RunFilter.model_validate({name: value for name, value in given.items() if value})
    except ValidationError as error:
        first = error.errors()[0]
        message = str(first["msg"]).removeprefix("Value error, ")
        named = first["loc"][0] if first["loc"] else "filter"
        raise UsageError(f"{named}: {message}") from error


async def read_run(client: Client, run: str) -> ListedRun:
    """Return one run as it is now. Raises UsageError where there is none, and KeyMismatch."""
    async with translated(run):
        description = await client.get_workflow_handle(run).describe()
        if description.workflow_type != RUN_WORKFLOW:
            raise UsageError(f"'{run}' is a workflow, and no run")
        return listed_run(description, await read_memo(description))


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


async def _part(
    client: Client, query: str, token: bytes | None, size: int
) -> tuple[Sequence[WorkflowExecution], bytes | None]:
    """Return a part of the server's list, and the token of what comes after it."""
    listing = client.list_workflows(query, page_size=size, next_page_token=token)
    async with translated():
        await listing.fetch_next_page()
    return listing.current_page or (), listing.next_page_token or None


async def _read(execution: WorkflowExecution) -> tuple[ListedRun, RunMemo]:
    """Return a run with its memo."""
    listed = await read_listing(execution)
    return listed_run(execution, listed), listed.begun


def _passes(wanted: RunFilter, run: ListedRun, begun: RunMemo) -> bool:
    if wanted.state in ("running", "waiting") and run.status != wanted.state:
        return False
    if wanted.state == "partly failed" and not (begun.items is not None and begun.items.failed):
        return False
    return wanted.finds(run=run.run, task=begun.task, started_by=begun.started_by)


def _query(wanted: RunFilter) -> str:
    parts = [f"WorkflowType = '{RUN_WORKFLOW}'"]
    parts.append(f"ExecutionStatus = '{_STATES[wanted.state]}'" if wanted.state else NEWEST_EXECUTION)
    if wanted.worker:
        parts.append(f"{WORKER_ATTRIBUTE} = '{quoted(listed_worker(wanted.worker))}'")
    if wanted.begins:
        parts.append(f"WorkflowId STARTS_WITH '{quoted(wanted.begins)}'")
    since, until = wanted.began_between(datetime.now(UTC))
    parts += [f"StartTime {sign} '{stamp(time)}'" for sign, time in ((">=", since), ("<", until)) if time is not None]
    return " AND ".join(parts)


def stamp(moment: datetime) -> str:
    """Return the moment as it stands in a visibility query."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _address(token: bytes | None, after: str) -> str | None:
    """Return the place in the list behind the run `after` in the part that begins at a token of the server."""
    if token is None and not after:
        return None
    place = {"part": base64.b64encode(token or b"").decode(), "after": after}
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(page: str) -> tuple[bytes | None, str]:
    """Return the server's token, and the last run of the page before; both are empty for the first page."""
    if not page:
        return None, ""
    try:
        place: Any = json.loads(base64.urlsafe_b64decode(page))
        told = cast("dict[str, Any]", place) if isinstance(place, dict) else {}
        return base64.b64decode(str(told["part"])) or None, str(told["after"])
    except (binascii.Error, ValueError, KeyError) as error:
        raise UsageError("this address does not name a part of the list") from error


def listed_run(execution: WorkflowExecution, listed: RunListing) -> ListedRun:
    """Return a run as its listing tells it."""
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
