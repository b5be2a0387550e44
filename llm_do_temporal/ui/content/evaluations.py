"""Experiments as the page shows them: rows of their cases, and their metrics over time. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_do_temporal.client.evaluations.experiments import ExperimentListing
from llm_do_temporal.messages.experiments.evaluations import CaseResult, ExperimentRecord, MetricFigures
from llm_do_temporal.policy.cuts import cut_words
from llm_do_temporal.policy.evaluations.facts import CaseFile, CaseScore
from llm_do_temporal.policy.evaluations.figures import Figures, MetricKind, case_means, figures, scores_by_metric
from llm_do_temporal.policy.evaluations.spec import EvaluationCase
from llm_do_temporal.ui.content.graphics import Column, PlottedValue, PointPlot, columns, point_plot, spread

MOST_POINTS = 40
"""Experiments of a plot; of more, the newest."""
MOST_EXPERIMENTS = 10
"""Experiments of an evaluation that the list of all evaluations has."""
MOST_CHARS = 4_000
"""Characters of an answer, a file or a task that are shown; the run has all of it."""
_BINS = 10
_LABEL_CHARS = 16


@dataclass(frozen=True)
class Trend:
    """Metric over the experiments that have it."""

    metric: str
    plot: PointPlot


@dataclass(frozen=True)
class ShownEvaluation:
    """Evaluation with its experiments."""

    name: str
    experiments: tuple[ExperimentListing, ...]
    """Experiments that are shown, the newest first."""
    older: int
    """Number of experiments that are not shown."""
    metrics: tuple[str, ...]
    trends: tuple[Trend, ...]


def shown_evaluations(experiments: Sequence[ExperimentListing], *, whole: bool) -> list[ShownEvaluation]:
    """Return the evaluations in the order of their newest experiments; `whole` shows all experiments of each."""
    by_name: dict[str, list[ExperimentListing]] = {}
    for one in experiments:
        by_name.setdefault(one.facts.name, []).append(one)
    return [_shown(name, found, whole=whole) for name, found in by_name.items()]


def _shown(name: str, found: Sequence[ExperimentListing], *, whole: bool) -> ShownEvaluation:
    shown = tuple(found if whole else found[:MOST_EXPERIMENTS])
    metrics = tuple(dict.fromkeys(metric for one in shown for metric in one.facts.metrics))
    return ShownEvaluation(
        name, shown, len(found) - len(shown), metrics, tuple(_trend(metric, found) for metric in metrics)
    )


def _trend(metric: str, found: Sequence[ExperimentListing]) -> Trend:
    having = [one for one in found if metric in one.facts.metrics][:MOST_POINTS][::-1]
    readings: list[PlottedValue] = []
    before = ""
    for one in having:
        figures = one.facts.metrics[metric]
        version = one.facts.worker_version
        readings.append(
            PlottedValue(
                label=f"{one.started_at:%-d %b}",
                mean=figures.mean,
                low=figures.low,
                high=figures.high,
                is_new=bool(readings) and version != before,
                words=f"{one.short_digest}, {one.started_at:%Y-%m-%d %H:%M}: {figures_text(figures)}",
            )
        )
        before = version
    kind = having[-1].facts.metrics[metric].kind
    return Trend(metric, point_plot(readings, lambda value: value_text(value, kind), share=kind == "passes"))


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


def short_change_text(value: float, kind: MetricKind) -> str:
    """Return a difference as a scale has room for it: of pass and fail in percentage points."""
    return f"{100 * value:+.0f} pt" if kind == "passes" else f"{value:+.2g}"


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
    figures: Figures
    mean: str
    interval: str
    """Interval of the mean; empty where there is none."""
    distribution: tuple[Column, ...]


def metric_rows(record: ExperimentRecord) -> list[MetricRow]:
    """Return the metrics of an experiment."""
    outcomes = record.outcomes
    by_metric = scores_by_metric(outcomes)
    return [_metric_row(name, found, by_metric[name]) for name, found in figures(outcomes).items()]


def _metric_row(name: str, found: Figures, by_case: Mapping[str, Sequence[CaseScore]]) -> MetricRow:
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


def case_rows(record: ExperimentRecord, cases: Sequence[EvaluationCase], metrics: Sequence[str]) -> list[CaseRow]:
    """Return the rows of some cases."""
    return [_case_row(case.id, list(record.results_of(case.id)), metrics) for case in cases]


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
    return [_repeat(result) for result in record.results_of(case)]


def _repeat(result: CaseResult) -> ShownRepeat:
    facts = result.facts
    tools = Counter(call.tool for call in facts.calls)
    files = tuple((path, file, beginning(file.text or "")) for path, file in facts.files.items())
    said = ", ".join(f"{tool}, {count} times" if count > 1 else tool for tool, count in tools.items())
    cut = "" if facts.truncated is None else cut_words(facts.truncated)
    return ShownRepeat(result, beginning(facts.output), cut, said, files)


def beginning(value: Any) -> str:
    """Return the beginning of a text, or of a value as JSON; empty for None."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARS else f"{label[: _LABEL_CHARS - 1]}…"
