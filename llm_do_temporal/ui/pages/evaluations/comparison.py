"""Page of two experiments beside each other: verdicts, differences as plots, and every case side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.evaluations.experiments import (
    ComparedExperiments,
    compare_records,
    find_experiment,
    read_listed,
)
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.evaluations.comparison import MetricComparison
from llm_do_temporal.ui.content.evaluations.cases import beginning, shown_repeats
from llm_do_temporal.ui.content.evaluations.trends import change_text, short_change_text, value_text
from llm_do_temporal.ui.content.plots import points
from llm_do_temporal.ui.content.plots.points import DeltaPlot, delta_plot
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.pages.evaluations.experiments import address_of, listed, page_of

CASES_OF_A_PAGE = 20
MOST_BARS = 200
"""Differences of a plot; of more, the worst and the best."""


async def show_comparison(request: Request) -> Response:
    """Show the comparison of two experiments; the query may name one case."""
    client: LlmDoClient = request.app.state.client
    experiments = await listed(request)
    listings = [find_experiment(experiments, request.path_params[name]) for name in ("one", "other")]
    one, other = [(await read_listed(client.temporal, listing)).record for listing in listings]
    try:
        compared = compare_records(one, other)
    except UsageError as error:
        return render(
            request, "error.html", status=422, title="Not compared", message=error.message, next_step=error.next_step
        )
    wanted, number = request.query_params.get("case"), page_of(request)
    cases = compared.cases if wanted is None else [case for case in compared.cases if case == wanted]
    first = (number - 1) * CASES_OF_A_PAGE
    return render(
        request,
        "experiment_comparison.html",
        compared=compared,
        sides=[(letter, listing, address_of(listing)) for letter, listing in zip("AB", listings, strict=True)],
        plots={metric.metric: _plot(metric) for metric in compared.comparison.metrics if _is_drawn(metric)},
        plot_size=(points.WIDTH, points.HEIGHT),
        value_text=value_text,
        change_text=change_text,
        beginning=beginning,
        cases=[_shown_case(compared, case) for case in cases[first : first + CASES_OF_A_PAGE]],
        wanted=wanted,
        page=number,
        pages=-(-len(cases) // CASES_OF_A_PAGE),
    )


def _shown_case(compared: ComparedExperiments, case: str) -> dict[str, object]:
    """Return a case with its differences, and its repeats in both experiments."""
    differences = [
        (metric, delta)
        for metric in compared.comparison.metrics
        for delta in metric.deltas
        if delta.case == case and delta.delta
    ]
    sides = [shown_repeats(record, case) for record in (compared.one, compared.other)]
    return {"case": compared.other.spec.case(case), "differences": differences, "sides": sides}


def _is_drawn(metric: MetricComparison) -> bool:
    return metric.kind != "labels" and bool(metric.deltas)


def _plot(metric: MetricComparison) -> DeltaPlot:
    deltas = metric.deltas
    if len(deltas) > MOST_BARS:
        deltas = (*deltas[: MOST_BARS // 2], *deltas[-MOST_BARS // 2 :])
    return delta_plot(
        [(delta.case, delta.delta) for delta in deltas], lambda value: short_change_text(value, metric.kind)
    )


routes = [Route("/evaluations/{one}/compare/{other}", show_comparison, methods=["GET"])]
