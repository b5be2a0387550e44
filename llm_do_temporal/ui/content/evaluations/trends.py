"""Trends: the metrics of an evaluation over its experiments, oldest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llm_do_temporal.client.evaluations.experiments import ExperimentListing
from llm_do_temporal.messages.experiments.evaluations import MetricFigures
from llm_do_temporal.policy.evaluations.figures import MetricKind
from llm_do_temporal.ui.content.plots.points import PlottedValue, PointPlot, point_plot

MOST_POINTS = 40
"""Experiments of a plot; of more, the newest."""
MOST_EXPERIMENTS = 10
"""Experiments of an evaluation that the list of all evaluations has."""


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
