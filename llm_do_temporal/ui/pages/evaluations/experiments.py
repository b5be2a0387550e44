"""Pages of all experiments, with the trends of each evaluation, and of one with its cases."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.evaluations.experiments import (
    ExperimentListing,
    find_experiment,
    list_experiments,
    named,
    read_listed,
)
from llm_do_temporal.messages.experiments.evaluations import ExperimentRecord
from llm_do_temporal.policy.evaluations.run_ids import case_in_id
from llm_do_temporal.ui.content.evaluations.cases import beginning, case_rows, metric_rows, shown_repeats
from llm_do_temporal.ui.content.evaluations.trends import shown_evaluations, value_text
from llm_do_temporal.ui.content.plots import columns, points
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import comparison_address

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
        plot_size=(points.WIDTH, points.HEIGHT),
    )


async def show_experiment(request: Request) -> Response:
    """Show an experiment: its figures and cases, or one case where the query names it."""
    client: LlmDoClient = request.app.state.client
    experiments = await listed(request)
    listing = find_experiment(experiments, request.path_params["experiment"])
    if not listing.facts.record or listing.missing_key:
        return render(request, "experiment.html", listing=listing, address=address_of(listing), record=None)
    record = (await read_listed(client.temporal, listing)).record
    wanted = request.query_params.get("case")
    if wanted is not None:
        return _show_case(request, listing, record, wanted)
    others = [one for one in named(experiments, listing.facts.name) if one is not listing and one.facts.record]
    metrics = metric_rows(record)
    number = page_of(request)
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
        plot_size=(columns.WIDTH, columns.HEIGHT),
    )


def _show_case(request: Request, listing: ExperimentListing, record: ExperimentRecord, wanted: str) -> Response:
    # The address of a run's case has the case as it stands in the id of the run.
    case = record.spec.case(wanted) or next((one for one in record.spec.cases if case_in_id(one.id) == wanted), None)
    if case is None:
        message = f"The experiment has no case '{wanted[:100]}'."
        return render(request, "error.html", status=404, title="Not found", message=message, next_step=None)
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
    return RedirectResponse(comparison_address(address_of(other), address_of(shown)), 303)


async def listed(request: Request) -> list[ExperimentListing]:
    """Return all experiments, the newest first. Raises ConnectionFailed."""
    client: LlmDoClient = request.app.state.client
    return await list_experiments(client.temporal)


def address_of(listing: ExperimentListing) -> str:
    """Return the name that an experiment has in addresses."""
    return listing.short_digest or listing.workflow


def page_of(request: Request) -> int:
    """Return the number of the page that the query names, from 1; 1 for anything else."""
    given = request.query_params.get("page", "")
    return max(int(given), 1) if given.isascii() and given.isdigit() and len(given) < 6 else 1


routes = [
    Route("/evaluations", show_experiments, methods=["GET"]),
    Route("/evaluations/{experiment}", show_experiment, methods=["GET"]),
    Route("/evaluations/{experiment}/compare", choose_comparison, methods=["GET"]),
]
