"""Pages of evaluations: experiments with the trends of each evaluation, one with its cases, and two side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client.evaluations.experiments import (
    ComparedExperiments,
    ExperimentListing,
    compare_records,
    find_experiment,
    list_experiments,
    named,
    read_listed,
)
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.experiments.evaluations import ExperimentRecord
from llm_do_temporal.policy.evaluations.comparison import MetricComparison
from llm_do_temporal.policy.evaluations.run_ids import case_in_id
from llm_do_temporal.ui.content.evaluations import (
    beginning,
    case_rows,
    change_text,
    metric_rows,
    short_change_text,
    shown_evaluations,
    shown_repeats,
    value_text,
)
from llm_do_temporal.ui.content.graphics import HEIGHT, WIDTH, DeltaPlot, delta_plot
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import comparison_address
from llm_do_temporal.ui.requests import client_of, error_page, page_number, see_other

CASES_OF_A_PAGE = 100


async def show_experiments(request: Request) -> Response:
    """Show all evaluations, or the one that the query names, with their experiments."""
    experiments = await listed(request)
    name = request.query_params.get("name", "")
    return render(
        request,
        "evaluations.html",
        evaluations=shown_evaluations(named(experiments, name) if name else experiments, whole=bool(name)),
        name=name,
        value_text=value_text,
        address_of=address_of,
        plot_size=(WIDTH, HEIGHT),
    )


async def show_experiment(request: Request) -> Response:
    """Show an experiment: its figures and cases, or one case where the query names it."""
    client = client_of(request)
    experiments = await listed(request)
    listing = find_experiment(experiments, request.path_params["experiment"])
    if not listing.facts.record or listing.missing_key:
        return render(request, "experiment.html", listing=listing, address=address_of(listing), record=None)
    record = (await read_listed(client.temporal, listing)).record
    wanted = request.query_params.get("case")
    if wanted is not None:
        return _show_case(request, listing, record, wanted)
    others = [one for one in named(experiments, listing.facts.name) if one is not listing and one.facts.record]
    metrics, number = metric_rows(record), page_number(request)
    first = (number - 1) * CASES_OF_A_PAGE
    shown = record.spec.cases[first : first + CASES_OF_A_PAGE]
    return render(
        request,
        "experiment.html",
        listing=listing,
        address=address_of(listing),
        record=record,
        others=[(address_of(one), one) for one in others],
        metrics=metrics,
        rows=case_rows(record, shown, [metric.name for metric in metrics]),
        page=number,
        pages=-(-len(record.spec.cases) // CASES_OF_A_PAGE),
        plot_size=(WIDTH, HEIGHT),
    )


def _show_case(request: Request, listing: ExperimentListing, record: ExperimentRecord, wanted: str) -> Response:
    # The address of a run's case has the case as it stands in the id of the run.
    case = record.spec.case(wanted) or next((one for one in record.spec.cases if case_in_id(one.id) == wanted), None)
    if case is None:
        return error_page(request, 404, "Not found", f"The experiment has no case '{wanted[:100]}'.")
    return render(
        request,
        "experiment_case.html",
        listing=listing,
        address=address_of(listing),
        case=case,
        repeats=shown_repeats(record, case.id),
        beginning=beginning,
    )


async def choose_comparison(request: Request) -> Response:
    """Lead to the comparison of an experiment with the one that the query names."""
    experiments = await listed(request)
    shown = find_experiment(experiments, request.path_params["experiment"])
    other = find_experiment(experiments, request.query_params.get("with", ""))
    return see_other(comparison_address(address_of(other), address_of(shown)))


async def listed(request: Request) -> list[ExperimentListing]:
    """Return all experiments, the newest first. Raises ConnectionFailed."""
    return await list_experiments(client_of(request).temporal)


def address_of(listing: ExperimentListing) -> str:
    """Return the name that an experiment has in addresses."""
    return listing.short_digest or listing.workflow


COMPARED_CASES_OF_A_PAGE = 20
MOST_BARS = 200
"""Differences of a plot; of more, the worst and the best."""


async def show_comparison(request: Request) -> Response:
    """Show the comparison of two experiments; the query may name one case."""
    client = client_of(request)
    experiments = await listed(request)
    listings = [find_experiment(experiments, request.path_params[name]) for name in ("one", "other")]
    one, other = [(await read_listed(client.temporal, listing)).record for listing in listings]
    try:
        compared = compare_records(one, other)
    except UsageError as error:
        return error_page(request, 422, "Not compared", error.message, error.next_step)
    wanted, number = request.query_params.get("case"), page_number(request)
    cases = compared.cases if wanted is None else [case for case in compared.cases if case == wanted]
    first = (number - 1) * COMPARED_CASES_OF_A_PAGE
    return render(
        request,
        "experiment_comparison.html",
        compared=compared,
        sides=[(letter, listing, address_of(listing)) for letter, listing in zip("AB", listings, strict=True)],
        plots={metric.metric: _plot(metric) for metric in compared.comparison.metrics if _is_drawn(metric)},
        plot_size=(WIDTH, HEIGHT),
        value_text=value_text,
        change_text=change_text,
        beginning=beginning,
        cases=[_shown_case(compared, case) for case in cases[first : first + COMPARED_CASES_OF_A_PAGE]],
        wanted=wanted,
        page=number,
        pages=-(-len(cases) // COMPARED_CASES_OF_A_PAGE),
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


routes = [
    Route("/evaluations", show_experiments, methods=["GET"]),
    Route("/evaluations/{experiment}", show_experiment, methods=["GET"]),
    Route("/evaluations/{experiment}/compare", choose_comparison, methods=["GET"]),
    Route("/evaluations/{one}/compare/{other}", show_comparison, methods=["GET"]),
]
