"""The page of charts: runs, failures, costs and waits of the last weeks, each chart with its numbers as a table.

A chart is a picture of fixed size with stacked blocks; a template draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.charts.past_runs import PastRuns, count_ended
from llm_do_temporal.client.charts.weeks import Week, add_outcomes, last_weeks, shares_by_model, shares_by_worker
from llm_do_temporal.ui.content.renderer import money, render, span
from llm_do_temporal.ui.pages.runs import accounts_of

WEEKS = 8
MOST_SHARES = 12
"""Workers, and models, that are shown: the dearest."""
WIDTH = 560
HEIGHT = 190
_TOP = 20
"""Room for the value above a bar."""
_BASE = 165
"""Height at which bars stand; their labels are below."""
_GAP = 0.3
"""Part of a column that stays empty."""
KINDS = ("first", "second", "third")
"""Classes of the series."""


@dataclass(frozen=True)
class Rectangle:
    """Part of a column in the picture."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """Class of the series: `first`, `second` or `third`."""


@dataclass(frozen=True)
class Column:
    """Bars above one label, stacked."""

    label: str
    value: str
    """Text above the bars."""
    middle: float
    top: float
    bars: tuple[Rectangle, ...]


def columns(labels: Sequence[str], amounts: Sequence[Sequence[float]], shown: Callable[[float], str]) -> list[Column]:
    """Return a column for each label, with its amounts stacked in the order of KINDS; `shown` writes their sum."""
    most = max((sum(stack) for stack in amounts), default=0) or 1
    step = WIDTH / max(len(labels), 1)
    width = step * (1 - _GAP)
    found: list[Column] = []
    for number, (label, stack) in enumerate(zip(labels, amounts, strict=True)):
        left, top, bars = number * step + step * _GAP / 2, float(_BASE), list[Rectangle]()
        for kind, amount in zip(KINDS, stack, strict=False):
            height = round((_BASE - _TOP) * amount / most, 2)
            top -= height
            if height:
                bars.append(Rectangle(round(left, 2), round(top, 2), round(width, 2), height, kind))
        total = sum(stack)
        found.append(Column(label, shown(total) if total else "", round(left + width / 2, 2), top - 5, tuple(bars)))
    return found


async def show_charts(request: Request) -> Response:
    """Show the charts, with what has been read of the runs' ends so far; each reading goes on with some more."""
    client: LlmDoClient = request.app.state.client
    weeks = last_weeks(datetime.now(UTC), WEEKS)
    reading = await _past_runs(request).read(weeks[0].begin)
    await count_ended(client.temporal, weeks)
    add_outcomes(weeks, reading.read)
    return render(
        request,
        "charts.html",
        weeks=weeks,
        reading=reading,
        width=WIDTH,
        height=HEIGHT,
        runs=_columns(weeks, [[week.completed, week.failed, week.stopped] for week in weeks], "{:,.0f}".format),
        costs=_columns(weeks, [[float(week.cost)] for week in weeks], lambda cost: money(Decimal(str(cost)))),
        waits=_columns(weeks, [[_mean(week)] for week in weeks], lambda seconds: span(timedelta(seconds=seconds))),
        second=timedelta(seconds=1),
        means=[timedelta(seconds=_mean(week)) for week in weeks],
        workers=shares_by_worker(reading.read)[:MOST_SHARES],
        models=shares_by_model(reading.read)[:MOST_SHARES],
    )


def _columns(weeks: list[Week], amounts: list[list[float]], shown: Callable[[float], str]) -> list[Column]:
    return columns([f"{week.begin:%-d %b}" for week in weeks], amounts, shown)


def _mean(week: Week) -> float:
    """Return the seconds that a question waited on average."""
    return week.waited.seconds / week.waited.questions if week.waited.questions else 0


def _past_runs(request: Request) -> PastRuns:
    """Return the index of ended runs, which all visitors share."""
    state = request.app.state
    if state.past_runs is None:
        state.past_runs = PastRuns(state.client.temporal, accounts_of(request))
    return state.past_runs


routes = [Route("/charts", show_charts, methods=["GET"])]
