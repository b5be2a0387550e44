"""Figures of metrics as people read them: shares in percent, differences in points. Pure."""

from __future__ import annotations

from typing import NamedTuple

from llm_do_temporal.policy.evaluations.comparison import MetricComparison, Verdict
from llm_do_temporal.policy.evaluations.outcomes import MetricKind

VERDICTS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "no_difference_shown": "no difference shown",
    "too_few": "too few cases to tell",
    "not_compared": "labels, not tested",
}
NONE = "-"


def mean_text(value: float | None, kind: MetricKind) -> str:
    """Return a mean: of pass and fail as a share; NONE where it is not known."""
    if value is None:
        return NONE
    return f"{100 * value:.1f} %" if kind == "passes" else f"{value:.3g}"


def delta_text(value: float | None, kind: MetricKind) -> str:
    """Return a difference with its sign: of pass and fail in percentage points; NONE where it is not known."""
    if value is None:
        return NONE
    return f"{100 * value:+.1f} pt" if kind == "passes" else f"{value:+.3g}"


def interval_text(low: float | None, high: float | None, kind: MetricKind) -> str:
    """Return an interval of a difference; NONE where there is none."""
    return NONE if low is None or high is None else f"{delta_text(low, kind)} to {delta_text(high, kind)}"


def p_text(value: float | None) -> str:
    """Return a probability; NONE where nothing was tested."""
    if value is None:
        return NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def counts_text(metric: MetricComparison) -> str:
    """Return wins, ties and losses, like `3/10/1`."""
    return f"{metric.wins}/{metric.ties}/{metric.losses}"


class MetricTexts(NamedTuple):
    """Figures of a compared metric; `one` and `other` are the means of both sides."""

    verdict: str
    one: str
    other: str
    delta: str
    interval: str
    counts: str
    p: str


def metric_texts(metric: MetricComparison) -> MetricTexts:
    """Return all figures of a compared metric."""
    return MetricTexts(
        VERDICTS[metric.verdict],
        mean_text(metric.one, metric.kind),
        mean_text(metric.other, metric.kind),
        delta_text(metric.delta, metric.kind),
        interval_text(metric.low, metric.high, metric.kind),
        counts_text(metric),
        p_text(metric.adjusted_p),
    )
