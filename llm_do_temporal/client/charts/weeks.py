"""Weeks, and the sums of the runs that ended in them. Pure.

Weeks begin on Monday at midnight, UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

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
