"""Runs that have ended, with their costs and waits: an index in memory, filled from the ends of histories.

The server stays the only source: how many runs ended, and how, it counts itself; what they cost stands in the last
event of each, which is read once. An index that is lost is filled again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowExecution
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

from llm_do_temporal.client.charts.weeks import EndedRun, Outcome, Week
from llm_do_temporal.client.connection.errors import is_missing, translated
from llm_do_temporal.client.views.memos import ANSWERED_RUNS, NEWEST_EXECUTION, read_listing
from llm_do_temporal.client.views.run_list import stamp
from llm_do_temporal.client.views.tree import Accounts, Branch, state_of
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_ATTRIBUTE
from llm_do_temporal.messages.budget import Waits

MOST_RUNS = 20_000
"""Runs that are indexed; of more, the newest."""
READ_AT_ONCE = 250
"""Ends of runs that are read for one page."""
_ENDED = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus != 'Running' AND {NEWEST_EXECUTION}"
_LATE = timedelta(minutes=1)
"""Time by which a server may list a run later than its end."""
_WORKER = SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE)


@dataclass(frozen=True)
class Reading:
    """State of the index."""

    read: list[tuple[EndedRun, Outcome]]
    """Runs whose ends were read."""
    unread: int
    """Number of runs whose ends have not been read yet."""
    unreadable: int
    """Number of runs whose ends cannot be read here, or are no longer kept."""


class PastRuns:
    """Index of the runs that have ended."""

    def __init__(self, client: Client, accounts: Accounts) -> None:
        self._client = client
        self._accounts = accounts
        self._runs: dict[str, EndedRun] = {}
        self._outcomes: dict[str, Outcome | None] = {}
        """Outcomes by run id; None where the end cannot be read."""
        self._newest: datetime | None = None
        self._turn = asyncio.Lock()

    async def read(self, since: datetime, *, most: int = READ_AT_ONCE) -> Reading:
        """Return the runs that ended since then, after reading the ends of some more. Raises ConnectionFailed."""
        async with self._turn, translated():
            await self._list(since)
            unread = [run for run in self._runs.values() if run.run_id not in self._outcomes]
            unread.sort(key=lambda run: run.ended_at, reverse=True)
            outcomes = await asyncio.gather(*(self._outcome(run) for run in unread[:most]))
            for run, outcome in zip(unread, outcomes, strict=False):
                self._outcomes[run.run_id] = outcome
        told = [(run, self._outcomes[run.run_id]) for run in self._runs.values() if run.run_id in self._outcomes]
        read = [(run, outcome) for run, outcome in told if outcome is not None]
        return Reading(read, len(self._runs) - len(told), len(told) - len(read))

    async def _list(self, since: datetime) -> None:
        """Bring the index up to date with the server's list, and forget what ended before `since`."""
        bound = since if self._newest is None else max(since, self._newest - _LATE)
        query = f"{_ENDED} AND CloseTime >= '{stamp(bound)}'"
        async for execution in self._client.list_workflows(query, page_size=ANSWERED_RUNS, limit=MOST_RUNS):
            if execution.close_time is not None and execution.run_id not in self._runs:
                self._runs[execution.run_id] = await _ended(execution, execution.close_time)
        kept = sorted((run for run in self._runs.values() if run.ended_at >= since), key=lambda run: run.ended_at)
        self._runs = {run.run_id: run for run in kept[-MOST_RUNS:]}
        self._outcomes = {run: outcome for run, outcome in self._outcomes.items() if run in self._runs}
        if kept:
            self._newest = kept[-1].ended_at

    async def _outcome(self, run: EndedRun) -> Outcome | None:
        branch = Branch(run.run, run.run_id, "", run.worker, "", run.status, run.started_at, run.ended_at)
        try:
            spent = await self._accounts.read_one(branch)
        except KeyMismatch:
            return None
        except RPCError as error:
            if not is_missing(error):
                raise
            return None
        usage = spent.total
        return Outcome(usage.cost_usd, usage.costs, bool(usage.unpriced), spent.waited or Waits())


async def count_ended(client: Client, weeks: Sequence[Week]) -> None:
    """Put into each week how many runs ended in it, and how, as the server counts them. Raises ConnectionFailed."""
    async with translated():
        await asyncio.gather(*(_count(client, week) for week in weeks))


async def _count(client: Client, week: Week) -> None:
    bounds = f"CloseTime >= '{stamp(week.begin)}' AND CloseTime < '{stamp(week.end)}'"
    counted = await client.count_workflows(f"{_ENDED} AND {bounds} GROUP BY ExecutionStatus")
    for group in counted.groups:
        status, number = str(group.group_values[0]), group.count
        if status == "Completed":
            week.completed += number
        elif status in ("Canceled", "Terminated"):
            week.stopped += number
        else:
            week.failed += number


async def _ended(execution: WorkflowExecution, ended_at: datetime) -> EndedRun:
    worker = execution.typed_search_attributes.get(_WORKER)
    if worker is None:
        worker = (await read_listing(execution)).begun.worker
    return EndedRun(execution.id, execution.run_id, worker, state_of(execution), execution.start_time, ended_at)
