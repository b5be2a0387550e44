"""Pages of evaluations: experiments with the trends of each evaluation, one with its cases, and two side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.evaluations.client import (
    ComparedExperiments,
    ExperimentListing,
    compare_records,
    find_experiment,
    list_experiments,
    named,
    read_listed,
)
from llm_do_temporal.extensions.evaluations.messages import ExperimentRecord
from llm_do_temporal.extensions.evaluations.policy.experiment import case_in_id, comparison_address, experiment_address
from llm_do_temporal.extensions.evaluations.policy.figures import (
    MetricComparison,
    MetricFigures,
    MetricKind,
    case_means,
    figures,
    scores_by_metric,
)
from llm_do_temporal.extensions.evaluations.policy.scores import CaseFile, CaseResult, CaseScore
from llm_do_temporal.policy.models import cut_words
from llm_do_temporal.ui.content.graphics import (
    HEIGHT,
    WIDTH,
    Column,
    DeltaPlot,
    PlottedValue,
    PointPlot,
    columns,
    delta_plot,
    point_plot,
    spread,
)
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.requests import client_of, error_page, page_number, see_other

CASES_OF_A_PAGE = 100


def _render(request: Request, template: str, **context: Any) -> Response:
    addresses = {"experiment_address": experiment_address, "comparison_address": comparison_address}
    return render(request, f"evaluations/{template}.html", **addresses, plot_size=(WIDTH, HEIGHT), **context)


async def show_experiments(request: Request) -> Response:
    """Show all evaluations, or the one that the query names, with their experiments."""
    experiments = await list_experiments(client_of(request).temporal)
    name = request.query_params.get("name", "")
    return _render(
        request,
        "evaluations",
        evaluations=shown_evaluations(named(experiments, name) if name else experiments, whole=bool(name)),
        name=name,
        value_text=value_text,
        address_of=address_of,
    )


async def show_experiment(request: Request) -> Response:
    """Show an experiment: its figures and cases, or one case where the query names it."""
    client = client_of(request)
    experiments = await list_experiments(client_of(request).temporal)
    listing = find_experiment(experiments, request.path_params["experiment"])
    if not listing.facts.record or listing.missing_key:
        return _render(request, "experiment", listing=listing, address=address_of(listing), record=None)
    record = (await read_listed(client.temporal, listing)).record
    wanted = request.query_params.get("case")
    if wanted is not None:
        # The address of a run's case has the case as it stands in the id of the run.
        case = record.spec.case(wanted) or next(
            (one for one in record.spec.cases if case_in_id(one.id) == wanted), None
        )
        if case is None:
            return error_page(request, 404, "Not found", f"The experiment has no case '{wanted[:100]}'.")
        return _render(
            request,
            "case",
            listing=listing,
            address=address_of(listing),
            case=case,
            repeats=shown_repeats(record, case.id),
            beginning=beginning,
        )
    others = [one for one in named(experiments, listing.facts.name) if one is not listing and one.facts.record]
    by_metric = scores_by_metric(record.results)
    metrics = [_metric_row(name, found, by_metric[name]) for name, found in figures(record.results).items()]
    number = page_number(request)
    first = (number - 1) * CASES_OF_A_PAGE
    shown = record.spec.cases[first : first + CASES_OF_A_PAGE]
    return _render(
        request,
        "experiment",
        listing=listing,
        address=address_of(listing),
        record=record,
        others=[(address_of(one), one) for one in others],
        metrics=metrics,
        rows=[_case_row(case.id, list(record.results_of(case.id)), list(by_metric)) for case in shown],
        page=number,
        pages=-(-len(record.spec.cases) // CASES_OF_A_PAGE),
    )


async def choose_comparison(request: Request) -> Response:
    """Lead to the comparison of an experiment with the one that the query names."""
    experiments = await list_experiments(client_of(request).temporal)
    shown = find_experiment(experiments, request.path_params["experiment"])
    other = find_experiment(experiments, request.query_params.get("with", ""))
    return see_other(comparison_address(address_of(other), address_of(shown)))


def address_of(listing: ExperimentListing) -> str:
    """Return the name that an experiment has in addresses."""
    return listing.short_digest or listing.workflow


COMPARED_CASES_OF_A_PAGE = 20
MOST_BARS = 200
"""Differences of a plot; of more, the worst and the best."""


async def show_comparison(request: Request) -> Response:
    """Show the comparison of two experiments; the query may name one case."""
    client = client_of(request)
    experiments = await list_experiments(client_of(request).temporal)
    listings = [find_experiment(experiments, request.path_params[name]) for name in ("one", "other")]
    one, other = [(await read_listed(client.temporal, listing)).record for listing in listings]
    try:
        compared = compare_records(one, other)
    except UsageError as error:
        return error_page(request, 422, "Not compared", error.message, error.next_step)
    wanted, number = request.query_params.get("case"), page_number(request)
    cases = compared.cases if wanted is None else [case for case in compared.cases if case == wanted]
    first = (number - 1) * COMPARED_CASES_OF_A_PAGE
    drawn = [metric for metric in compared.comparison.metrics if metric.kind != "labels" and metric.deltas]
    return _render(
        request,
        "comparison",
        compared=compared,
        sides=[(letter, listing, address_of(listing)) for letter, listing in zip("AB", listings, strict=True)],
        plots={metric.metric: _plot(metric) for metric in drawn},
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


def _plot(metric: MetricComparison) -> DeltaPlot:
    deltas = metric.deltas
    if len(deltas) > MOST_BARS:
        deltas = (*deltas[: MOST_BARS // 2], *deltas[-MOST_BARS // 2 :])
    return delta_plot(
        [(delta.case, delta.delta) for delta in deltas],
        lambda value: f"{100 * value:+.0f} pt" if metric.kind == "passes" else f"{value:+.2g}",
    )


routes = [
    Route("/evaluations", show_experiments, methods=["GET"]),
    Route("/evaluations/{experiment}", show_experiment, methods=["GET"]),
    Route("/evaluations/{experiment}/compare", choose_comparison, methods=["GET"]),
    Route("/evaluations/{one}/compare/{other}", show_comparison, methods=["GET"]),
]


MOST_POINTS = 40
"""Experiments of a plot; of more, the newest."""
MOST_EXPERIMENTS = 10
"""Experiments of an evaluation that the list of all evaluations has."""
MOST_CHARS = 4_000
"""Characters of an answer, a file or a task that are shown; the run has all of it."""
_BINS = 10
_LABEL_CHARS = 16


@dataclass(frozen=True)
class ShownEvaluation:
    """Evaluation with its experiments."""

    name: str
    experiments: tuple[ExperimentListing, ...]
    """Experiments that are shown, the newest first."""
    older: int
    """Number of experiments that are not shown."""
    metrics: tuple[str, ...]
    trends: Mapping[str, PointPlot]
    """Plots of the metrics over the experiments that have them, by their names."""


def shown_evaluations(experiments: Sequence[ExperimentListing], *, whole: bool) -> list[ShownEvaluation]:
    """Return the evaluations in the order of their newest experiments; `whole` shows all experiments of each."""
    by_name: dict[str, list[ExperimentListing]] = {}
    for one in experiments:
        by_name.setdefault(one.facts.name, []).append(one)
    evaluations: list[ShownEvaluation] = []
    for name, found in by_name.items():
        shown = tuple(found if whole else found[:MOST_EXPERIMENTS])
        metrics = tuple(dict.fromkeys(metric for one in shown for metric in one.facts.metrics))
        trends = {metric: _trend(metric, found) for metric in metrics}
        evaluations.append(ShownEvaluation(name, shown, len(found) - len(shown), metrics, trends))
    return evaluations


def _trend(metric: str, found: Sequence[ExperimentListing]) -> PointPlot:
    having = [one for one in found if metric in one.facts.metrics][:MOST_POINTS][::-1]
    readings: list[PlottedValue] = []
    before = ""
    for one in having:
        figures, version = one.facts.metrics[metric], one.facts.worker_version
        readings.append(
            PlottedValue(
                label=f"{one.started_at:%-d %b}",
                mean=figures.mean or 0.0,
                low=figures.low,
                high=figures.high,
                is_new=bool(readings) and version != before,
                words=f"{one.short_digest}, {one.started_at:%Y-%m-%d %H:%M}: {figures_text(figures)}",
            )
        )
        before = version
    kind = having[-1].facts.metrics[metric].kind
    return point_plot(readings, lambda value: value_text(value, kind), share=kind == "passes")


def figures_text(figures: MetricFigures) -> str:
    """Return a mean with its interval."""
    mean = value_text(figures.mean, figures.kind)
    if figures.low is None or figures.high is None:
        return mean
    return f"{mean} ({value_text(figures.low, figures.kind)} to {value_text(figures.high, figures.kind)})"


def value_text(value: float | None, kind: MetricKind) -> str:
    """Return a value of a metric: of pass and fail as a share; empty where it is not known."""
    if value is None:
        return ""
    return f"{100 * value:.0f} %" if kind == "passes" else f"{value:.3g}"


def change_text(value: float | None, kind: MetricKind) -> str:
    """Return a difference with its sign: of pass and fail in percentage points; empty where it is not known."""
    if value is None:
        return ""
    return f"{100 * value:+.1f} points" if kind == "passes" else f"{value:+.3g}"


@dataclass(frozen=True)
class CaseRow:
    """Case in the table of an experiment."""

    id: str
    cells: tuple[str, ...]
    """Values of the metrics, in their order; empty where it has none."""
    errors: int
    """Repeats that ended in an error."""
    cost: float | None
    """US dollars of all repeats; None: not known of each."""
    seconds: float | None
    """Mean seconds of a repeat; None: not known of any."""
    runs: tuple[str, ...]


@dataclass(frozen=True)
class MetricRow:
    """Metric in the table of an experiment, with the distribution of its cases."""

    name: str
    figures: MetricFigures
    mean: str
    interval: str
    """Interval of the mean; empty where there is none."""
    distribution: tuple[Column, ...]


def _metric_row(name: str, found: MetricFigures, by_case: Mapping[str, Sequence[CaseScore]]) -> MetricRow:
    if found.kind == "labels":
        shown = dict(list(found.labels.items())[:_BINS])
        drawn = columns([_short(label) for label in shown], [[count] for count in shown.values()], "{:.0f}".format)
        return MetricRow(name, found, "", "", tuple(drawn))
    values = list(case_means(by_case).values())
    low, high = (0.0, 1.0) if found.kind == "passes" else (min(values), max(values))
    bins = _BINS if high > low else 1
    edges = [low + (high - low) * number / bins for number in range(bins)]
    counts = spread(values, bins, low, high)
    # There is room for every other number.
    names = ["" if number % 2 else value_text(edge, found.kind) for number, edge in enumerate(edges)]
    drawn = columns(names, [[count] for count in counts], "{:.0f}".format)
    interval = ""
    if found.low is not None and found.high is not None:
        interval = f"{value_text(found.low, found.kind)} to {value_text(found.high, found.kind)}"
    return MetricRow(name, found, value_text(found.mean, found.kind), interval, tuple(drawn))


def _case_row(case: str, results: Sequence[CaseResult], metrics: Sequence[str]) -> CaseRow:
    costs = [result.facts.usage.cost for result in results]
    known = [cost for cost in costs if cost is not None]
    seconds = [result.facts.seconds for result in results if result.facts.seconds is not None]
    return CaseRow(
        id=case,
        cells=tuple(_cell([result.score(metric) for result in results]) for metric in metrics),
        errors=sum(result.facts.error is not None for result in results),
        cost=sum(known) if known and len(known) == len(costs) else None,
        seconds=sum(seconds) / len(seconds) if seconds else None,
        runs=tuple(result.run for result in results),
    )


def _cell(values: Sequence[bool | float | str | None]) -> str:
    """Return the values of all repeats of a case, in one cell."""
    given = [value for value in values if value is not None]
    if not given:
        return ""
    if all(isinstance(value, bool) for value in given):
        return f"{sum(map(bool, given))} of {len(given)}"
    if any(isinstance(value, str) for value in given):
        return ", ".join(f"{_short(label)} {count}" for label, count in Counter(map(str, given)).most_common())
    return f"{sum(map(float, given)) / len(given):.3g}"


@dataclass(frozen=True)
class ShownRepeat:
    """Repeat of a case."""

    result: CaseResult
    answer: str
    """Beginning of the answer."""
    cut: str
    """Clause that says why the answer is not whole; empty: it is."""
    calls: str
    """Tools that were called, with the number of calls of each."""
    files: tuple[tuple[str, CaseFile, str], ...]
    """Path, file and the beginning of its text."""


def shown_repeats(record: ExperimentRecord, case: str) -> list[ShownRepeat]:
    """Return the repeats of a case, in their order."""
    shown: list[ShownRepeat] = []
    for result in record.results_of(case):
        facts = result.facts
        tools = Counter(call.tool for call in facts.calls)
        files = tuple((path, file, beginning(file.text or "")) for path, file in facts.files.items())
        said = ", ".join(f"{tool}, {count} times" if count > 1 else tool for tool, count in tools.items())
        cut = "" if facts.truncated is None else cut_words(facts.truncated)
        shown.append(ShownRepeat(result, beginning(facts.output), cut, said, files))
    return shown


def beginning(value: Any) -> str:
    """Return the beginning of a text, or of a value as JSON; empty for None."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARS else f"{label[: _LABEL_CHARS - 1]}…"
