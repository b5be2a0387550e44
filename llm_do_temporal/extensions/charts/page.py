"""Page of the charts of the last weeks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.extensions.charts.weeks import (
    PastRuns,
    Week,
    add_outcomes,
    count_ended,
    last_weeks,
    shares_by_model,
    shares_by_worker,
)
from llm_do_temporal.ui.content.graphics import HEIGHT, WIDTH, Column, columns
from llm_do_temporal.ui.content.renderer import money, render, span
from llm_do_temporal.ui.pages.runs import accounts_of
from llm_do_temporal.ui.requests import client_of, shared

WEEKS = 8
MOST_SHARES = 12
"""Workers, and models, that are shown: the dearest."""


async def show_charts(request: Request) -> Response:
    """Show the charts, with what has been read of the runs' ends so far; each reading goes on with some more."""
    weeks = last_weeks(datetime.now(UTC), WEEKS)
    past = shared(request, "past_runs", lambda client: PastRuns(client, accounts_of(request)))
    reading = await past.read(weeks[0].begin)
    await count_ended(client_of(request).temporal, weeks)
    add_outcomes(weeks, reading.read)
    return render(
        request,
        "charts/charts.html",
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


routes = [Route("/charts", show_charts, methods=["GET"])]
