"""Charts of the last weeks: runs that have ended, with their costs and waits, and their sums by week.

An index in memory is filled from the ends of histories. The server stays the only source: how many runs ended, and
how, it counts itself; what they cost stands in the last event of each, which is read once. An index that is lost is
filled again. Neither the list nor the ends are read whole for one page: whoever looks at the charts of ten thousand
runs sees those of the newest at once. Weeks begin on Monday at midnight, UTC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.views.server_list import NEWEST_EXECUTION, attribute_of, read_listing, read_part, stamp
from llm_do_temporal.client.views.tree import Accounts, Branch, state_of
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_ATTRIBUTE
from llm_do_temporal.messages.budget import Waits

NOTHING = Decimal(0)
_WEEK = timedelta(days=7)
_NO_WAITS = Waits()


@dataclass(frozen=True)
class EndedRun:
    """End of a run, as the server lists it, and as its last event tells it once that was read."""

    run: str
    run_id: str
    worker: str
    status: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class Outcome:
    """Cost of a run that has ended, and the time that its questions waited."""

    cost: Decimal | None = None
    """US dollars of the turns whose price is known; None: no such turn."""
    costs: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    """US dollars by model."""
    is_partial: bool = False
    """Whether there were turns whose price is not known."""
    waited: Waits = _NO_WAITS


@dataclass
class Week:
    """Sums of the runs that ended in a week."""

    begin: datetime
    completed: int = 0
    failed: int = 0
    """Runs that failed or ran out of time."""
    stopped: int = 0
    """Runs that were cancelled or terminated."""
    cost: Decimal = NOTHING
    waited: Waits = _NO_WAITS

    @property
    def end(self) -> datetime:
        """First moment of the week after it."""
        return self.begin + _WEEK

    @property
    def runs(self) -> int:
        """Number of runs that ended in it."""
        return self.completed + self.failed + self.stopped


@dataclass
class Share:
    """Part of the cost that a worker or a model has."""

    name: str
    runs: int = 0
    cost: Decimal = NOTHING
    is_partial: bool = False
    """Whether there were turns whose price is not known."""


def last_weeks(now: datetime, number: int) -> list[Week]:
    """Return so many weeks without runs, the present one last."""
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = day - timedelta(days=day.weekday())
    return [Week(monday - _WEEK * back) for back in range(number - 1, -1, -1)]


def add_outcomes(weeks: Sequence[Week], outcomes: Iterable[tuple[EndedRun, Outcome]]) -> None:
    """Add costs and waits to the weeks in which the runs ended."""
    for run, outcome in outcomes:
        week = next((one for one in weeks if one.begin <= run.ended_at < one.end), None)
        if week is not None:
            week.cost += outcome.cost or NOTHING
            week.waited = week.waited.plus(outcome.waited)


def shares_by_worker(outcomes: Iterable[tuple[EndedRun, Outcome]]) -> list[Share]:
    """Return the cost of each entry worker with all that it delegated, the dearest first."""
    found: dict[str, Share] = {}
    for run, outcome in outcomes:
        _add(found, run.worker, outcome.cost or NOTHING, outcome.is_partial)
    return _sorted(found)


def shares_by_model(outcomes: Iterable[tuple[EndedRun, Outcome]]) -> list[Share]:
    """Return the cost of each model that cost something, the dearest first, with the number of runs that used it."""
    found: dict[str, Share] = {}
    for _, outcome in outcomes:
        for model, cost in outcome.costs.items():
            _add(found, model, cost, partial=False)
    return _sorted(found)


def _add(found: dict[str, Share], name: str, cost: Decimal, partial: bool) -> None:
    share = found.setdefault(name, Share(name))
    share.runs += 1
    share.cost += cost
    share.is_partial |= partial


def _sorted(found: dict[str, Share]) -> list[Share]:
    return sorted(found.values(), key=lambda share: (-share.cost, -share.runs, share.name))


MOST_RUNS = 20_000
"""Runs that are indexed; of more, the newest."""
READ_AT_ONCE = 250
"""Ends of runs that are read for one page."""
LISTED_AT_ONCE = READ_AT_ONCE
"""Runs that are listed with one question to the server."""
_ENDED = f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus != 'Running' AND {NEWEST_EXECUTION}"
_LATE = timedelta(minutes=1)
"""Time by which a server may list a run later than its end."""


@dataclass(frozen=True)
class Reading:
    """State of the index."""

    read: list[tuple[EndedRun, Outcome]]
    """Runs whose ends were read."""
    unread: int
    """Number of runs whose ends have not been read yet."""
    unreadable: int
    """Number of runs whose ends cannot be read here, or are no longer kept."""


@dataclass(frozen=True)
class _Rest:
    """Rest of a list of runs, the newest ends first."""

    query: str
    token: bytes = b""
    """Token of the next part; empty where none was read."""
    until: datetime | None = None
    """End of the last run that was read, and those of the rest ended no later; None: none was read."""


class PastRuns:
    """Index of the runs that have ended."""

    def __init__(self, client: Client, accounts: Accounts) -> None:
        self._client = client
        self._accounts = accounts
        self._runs: dict[str, EndedRun] = {}
        self._outcomes: dict[str, Outcome | None] = {}
        """Outcomes by run id; None where the end cannot be read."""
        self._newest: datetime | None = None
        """End of the newest run that was listed; None: none was."""
        self._unlisted: list[_Rest] = []
        """Rests of lists that were read in part; that of the newest runs last."""
        self._turn = asyncio.Lock()

    async def read(self, since: datetime, *, most: int = READ_AT_ONCE) -> Reading:
        """Return the runs that ended since then, after reading the ends of some more. Raises ConnectionFailed."""
        async with self._turn, translated():
            bound = since if self._newest is None else max(since, self._newest - _LATE)
            await self._list(_Rest(_ended_since(bound)))
            self._forget(since)
            while len(self._unread()) < most and self._unlisted:
                await self._list(self._unlisted[-1])
                self._forget(since)
            unread = sorted(self._unread(), key=lambda run: run.ended_at, reverse=True)[:most]
            outcomes = await asyncio.gather(*(self._outcome(run) for run in unread))
            for run, outcome in zip(unread, outcomes, strict=True):
                self._outcomes[run.run_id] = outcome
            listed = len(self._runs)
            if self._unlisted:
                ended = await self._client.count_workflows(_ended_since(since))
                # There are more, whatever was counted.
                listed = max(listed, min(ended.count, MOST_RUNS), len(self._outcomes) + 1)
        told = [(run, self._outcomes[run.run_id]) for run in self._runs.values() if run.run_id in self._outcomes]
        read = [(run, outcome) for run, outcome in told if outcome is not None]
        return Reading(read, listed - len(told), len(told) - len(read))

    def _unread(self) -> list[EndedRun]:
        return [run for run in self._runs.values() if run.run_id not in self._outcomes]

    async def _list(self, rest: _Rest) -> None:
        """Take the next part of a list into the index, and remember where it goes on."""
        part = await read_part(self._client, rest.query, token=rest.token, size=LISTED_AT_ONCE)
        self._unlisted = [one for one in self._unlisted if one is not rest]
        for info in part.found:
            if info.HasField("close_time") and info.execution.run_id not in self._runs:
                self._runs[info.execution.run_id] = await _ended(info, self._client.data_converter)
        if part.following:
            until = part.found[-1].close_time.ToDatetime(UTC)
            self._unlisted.append(_Rest(rest.query, part.following, until))

    def _forget(self, since: datetime) -> None:
        """Forget the runs that ended before then, and of very many the oldest."""
        kept = sorted((run for run in self._runs.values() if run.ended_at >= since), key=lambda run: run.ended_at)
        kept = kept[-MOST_RUNS:]
        if len(kept) == MOST_RUNS:
            self._unlisted = [rest for rest in self._unlisted if rest.until is None or rest.until >= kept[0].ended_at]
        self._runs = {run.run_id: run for run in kept}
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


def _ended_since(moment: datetime) -> str:
    return f"{_ENDED} AND CloseTime >= '{stamp(moment)}'"


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


async def _ended(info: WorkflowExecutionInfo, converter: DataConverter) -> EndedRun:
    worker: str | None = attribute_of(info, WORKER_ATTRIBUTE)
    if worker is None:
        worker = (await read_listing(info, converter)).begun.worker
    run, began, ended = info.execution, info.start_time.ToDatetime(UTC), info.close_time.ToDatetime(UTC)
    return EndedRun(run.workflow_id, run.run_id, worker, state_of(info), began, ended)
