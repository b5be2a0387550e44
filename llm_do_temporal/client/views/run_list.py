"""List of runs, in pages, with the usage of each; and one run as that list has it.

Pages are keysets: the server goes on after the time and the id at which the page before has ended, however many runs
begin or end meanwhile. Nothing is looked up run by run; the memo says what a filter asks.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.views.run_view import with_counts
from llm_do_temporal.client.views.server_list import (
    ANSWERED_RUNS,
    NEWEST_EXECUTION,
    RunListing,
    attribute_of,
    ended_at,
    every_part,
    is_part,
    no_part,
    read_begun,
    read_given,
    read_listing,
    read_memo,
    stamp,
    started_at,
)
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent, quoted, state_of
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.extension import RunPart, run_starters
from llm_do_temporal.messages.base import RUN_WORKFLOW, SCHEDULE_ATTRIBUTE, WORKER_ATTRIBUTE
from llm_do_temporal.messages.runs import ItemCounts, PendingApprovalMemo, RunMemo, listed_worker
from llm_do_temporal.policy.run_filter import RunFilter

PAGE_RUNS = 25
MOST_LOOKED_AT = 1_000
"""Runs after which a page goes on with the next one, where the server alone cannot tell which pass: it lists no more
than some thousand in a second."""
_LOOKED_AT_FIRST = 100
"""Runs that a page asks for first: mostly some of them are wanted."""
_MOST_IN_VAIN = 1_000_000_000
_LONGEST_PAGE = 10_000
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
class RunSummary:
    """Run as the server lists it."""

    run: str
    worker: str
    status: str
    """running, waiting, completed, failed, cancelled, terminated or timed out."""
    pending: int
    started_at: datetime
    ended_at: datetime | None
    items: ItemCounts | None = None
    """Counts of a batch; None for any other run, and where they cannot be read."""
    task: str = ""
    """First line of the prompt, or else the beginning of the input; empty where none can be read."""
    started_by: str = ""
    missing_key: str = ""
    """The id of the encryption key without which no more can be told; empty: all could be read."""
    fork_of: str = ""
    """Run whose answers it reuses; empty: it is no fork."""
    again_of: str = ""
    """Run whose items it does again; empty: it is no further attempt at a batch."""
    schedule: str = ""
    part: RunPart | None = None
    """Part in the workflow of a capability that started it; None: none did."""
    request: str = ""
    """Digest that it was started with; empty: with none."""
    run_id: str = ""
    questions: tuple[PendingApprovalMemo, ...] = ()
    """Questions that wait for a person, as far as they can be read."""
    has_history: bool = True
    """Whether the server still has what happened; it removes a history a moment before the run leaves the list."""

    @property
    def state(self) -> str:
        """The status; of a batch with its counts, like `completed, 1 of 4 failed`."""
        return with_counts(self.status, self.items)


@dataclass(frozen=True)
class RunPage:
    """A part of the list."""

    runs: list[RunSummary]
    following: str | None
    """Token of the next page; None: there is no more."""
    looked_at: int | None = None
    """Number of runs that were looked at, for this page and those before it that had none; None: the server alone has
    judged."""
    locked: int = 0
    """Runs among them whose memo cannot be read here, so that the filter leaves them out."""


async def list_runs(client: Client, wanted: RunFilter = _EVERY, *, page: str = "") -> RunPage:
    """Runs that pass the filter; open ones first, then those that ended last.

    `page` is `following` of the page before. Where the server alone cannot judge, up to MOST_LOOKED_AT runs are looked
    at, so that a page may have fewer runs than there are. Raises UsageError for a page that is none, ConnectionFailed.
    """
    query, (token, after, before), converter = _query(wanted), _place(page), client.data_converter
    async with translated():
        if not wanted.needs_memo:
            part = await read_given(client, query, token=token, size=PAGE_RUNS)
            listed = [listed_run(info, await read_listing(info, converter)) for info in part.found]
            return RunPage(listed, _address(part.following, ""))
        runs: list[RunSummary] = []
        looked_at, locked = before, 0
        # The part in which the page before has ended must be so large that its last run is in it.
        parts = every_part(client, query, token=token, first=ANSWERED_RUNS if after else _LOOKED_AT_FIRST)
        async for part in parts:
            seen = [info.execution.run_id for info in part.found]
            rest = part.found[seen.index(after) + 1 :] if after in seen else part.found
            for number, info in enumerate(rest, start=1):
                run, is_locked = await _chosen(info, converter, wanted)
                looked_at, locked = looked_at + 1, locked + is_locked
                runs += [] if run is None else [run]
                if len(runs) == PAGE_RUNS and (part.following or number < len(rest)):
                    return RunPage(runs, _address(part.token, info.execution.run_id), looked_at, locked)
            after = ""
            if not part.following or looked_at - before >= MOST_LOOKED_AT:
                return RunPage(runs, _address(part.following, "", 0 if runs else looked_at), looked_at, locked)
    raise AssertionError("the last part of a list is followed by none")


async def every_run(
    client: Client, wanted: RunFilter = _EVERY, *, limit: int, told: Callable[[int], None] | None = None
) -> AsyncIterator[RunSummary]:
    """Yield the first runs that pass the filter, however many must be looked at. Raises ConnectionFailed.

    `told` hears how many were looked at, each time before the server is asked for more.
    """
    # Left alone, the server would read a thousand, whatever the limit.
    size = ANSWERED_RUNS if wanted.needs_memo else min(limit, ANSWERED_RUNS)
    found = looked_at = 0
    async with translated():
        async for part in every_part(client, _query(wanted), first=size):
            looked_at += len(part.found)
            for info in part.found:
                run, _ = await _chosen(info, client.data_converter, wanted)
                if run is not None:
                    yield run
                    found += 1
                if found == limit:
                    return
            if part.following and told is not None:
                told(looked_at)


async def count_left_out(client: Client, wanted: RunFilter) -> int:
    """Return the number of runs that the filter leaves out because capabilities have started them.

    Of a filter that the server alone cannot judge: of all that may pass the rest of it. Raises ConnectionFailed.
    """
    if wanted.evaluations or not run_starters():
        return 0
    async with translated():
        return (await client.count_workflows(_query(wanted, left_out=True))).count


def read_filter(given: Mapping[str, Any]) -> RunFilter:
    """Return the filter of an address or of flags. Raises UsageError."""
    try:
        return RunFilter.model_validate({name: value for name, value in given.items() if value})
    except ValidationError as error:
        first = error.errors()[0]
        message = str(first["msg"]).removeprefix("Value error, ")
        named = first["loc"][0] if first["loc"] else "filter"
        raise UsageError(f"{named}: {message}") from error


async def read_run(client: Client, run: str) -> RunSummary:
    """Return one run as it is now. Raises UsageError where there is none, and KeyMismatch."""
    async with translated(run):
        description = await client.get_workflow_handle(run).describe()
        if description.workflow_type != RUN_WORKFLOW:
            raise UsageError(f"'{run}' is a workflow, and no run")
        return listed_run(description.raw_info, await read_memo(description.raw_info, client.data_converter))


async def read_spent(accounts: Accounts, run: RunSummary) -> Spent:
    """Return the usage of a run so far, without delegations and items of a batch under way. Raises KeyMismatch."""
    async with translated():
        return await accounts.read_one(_as_branch(run))


async def read_all_spent(accounts: Accounts, runs: Sequence[RunSummary]) -> list[tuple[RunSummary, Spent]]:
    """The runs with what each has spent so far; nothing where its history cannot be read here, or is there no more."""

    async def read(run: RunSummary) -> tuple[RunSummary, Spent]:
        try:
            return run, await accounts.read_one(_as_branch(run))
        except KeyMismatch as error:
            return replace(run, missing_key=error.key), Spent()
        except RPCError as error:
            if not is_missing(error):
                raise
            return replace(run, has_history=False), Spent()

    async with translated():
        return await asyncio.gather(*map(read, runs))


def _as_branch(run: RunSummary) -> Branch:
    status = "running" if run.ended_at is None else run.status
    return Branch(run.run, run.run_id, "", run.worker, "", status, run.started_at, run.ended_at)


async def _chosen(
    info: WorkflowExecutionInfo, converter: DataConverter, wanted: RunFilter
) -> tuple[RunSummary | None, bool]:
    """Return the run, None if it does not pass the filter; and whether its memo cannot be read here."""
    if wanted.text or wanted.who:
        # Most runs of a long list are not wanted: of these nothing else is read.
        try:
            begun, is_locked = await read_begun(info, converter), False
        except KeyMismatch:
            begun, is_locked = RunMemo(worker=""), True
        if not wanted.finds(run=info.execution.workflow_id, task=begun.task, started_by=begun.started_by):
            return None, is_locked
    run = listed_run(info, await read_listing(info, converter))
    if wanted.state in ("running", "waiting"):
        passes = run.status == wanted.state
    else:
        passes = wanted.state != "partly failed" or (run.items is not None and run.items.failed > 0)
    return run if passes else None, bool(run.missing_key)


def _query(wanted: RunFilter, *, left_out: bool = False) -> str:
    """Return the query for the filter; `left_out`: for the runs of capabilities that it leaves out."""
    parts = [f"WorkflowType = '{RUN_WORKFLOW}'"]
    if run_starters() and (left_out or not wanted.evaluations):
        parts.append(is_part(wanted=left_out))
    parts.append(f"ExecutionStatus = '{_STATES[wanted.state]}'" if wanted.state else NEWEST_EXECUTION)
    if wanted.worker:
        parts.append(f"{WORKER_ATTRIBUTE} = '{quoted(listed_worker(wanted.worker))}'")
    if wanted.schedule:
        parts.append(f"{SCHEDULE_ATTRIBUTE} = '{quoted(wanted.schedule)}'")
    if wanted.begins:
        parts.append(f"WorkflowId STARTS_WITH '{quoted(wanted.begins)}'")
    since, until = wanted.began_between(datetime.now(UTC))
    parts += [f"StartTime {sign} '{stamp(time)}'" for sign, time in ((">=", since), ("<", until)) if time is not None]
    return " AND ".join(parts)


def _address(token: bytes, after: str, looked_at: int = 0) -> str | None:
    """Return the place behind the run `after` in the part at a token of the server; `looked_at` runs were in vain."""
    if not token and not after:
        return None
    place = {"part": base64.b64encode(token).decode(), "after": after, "in_vain": looked_at}
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(page: str) -> tuple[bytes, str, int]:
    """Return the server's token, the last run of the page before, and how many were looked at in vain before that.

    The first two are empty for the first page.
    """
    if not page:
        return b"", "", 0
    if len(page) > _LONGEST_PAGE:
        raise no_part()
    try:
        place: Any = json.loads(base64.b64decode(page, altchars=b"-_", validate=True))
        told = cast("dict[str, Any]", place) if isinstance(place, dict) else {}
        part, after, vain = told["part"], told["after"], told.get("in_vain")
        if not isinstance(part, str) or not isinstance(after, str):
            raise no_part()
        looked_at = vain if type(vain) is int and 0 <= vain <= _MOST_IN_VAIN else 0
        return base64.b64decode(part, validate=True), after, looked_at
    except (binascii.Error, ValueError, KeyError, RecursionError) as error:
        raise no_part() from error


def listed_run(info: WorkflowExecutionInfo, listed: RunListing) -> RunSummary:
    """Return a run as its listing tells it."""
    run, parent = info.execution.workflow_id, info.parent_execution.workflow_id
    part = next((one.read_part(run, parent) for one in run_starters() if parent.startswith(one.prefix)), None)
    return RunSummary(
        run=run,
        run_id=info.execution.run_id,
        worker=listed.begun.worker,
        started_by=listed.begun.started_by,
        status="waiting" if listed.waiting else state_of(info),
        pending=listed.waiting or 0,
        questions=listed.pending,
        started_at=started_at(info, listed),
        ended_at=ended_at(info),
        items=listed.begun.items,
        task=listed.begun.task,
        missing_key=listed.missing_key,
        fork_of=listed.begun.fork_of,
        request=listed.begun.request,
        again_of=listed.begun.again_of,
        schedule=str(attribute_of(info, SCHEDULE_ATTRIBUTE) or ""),
        part=part,
    )
