"""Outcomes of a case's runs, averaged to a figure for each case: repeats of a case are no cases of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from llm_do_temporal.policy.evaluations.paired import mean_interval, mean_of, share_interval
from llm_do_temporal.policy.evaluations.scores import CaseScore, CaseScores
from llm_do_temporal.policy.values import Value

MetricKind: TypeAlias = Literal["passes", "scores", "labels"]
NO_ERROR = "no error"
"""Metric that compares how many runs ended without an error; it is there where any did not."""


class CaseOutcome(Value):
    """Outcome of one run of a case."""

    case: str
    """Id of the case."""
    repeat: int = Field(default=1, ge=1)
    error: bool = False
    """Whether the run ended in an error; it has no scores."""
    scores: CaseScores = CaseScores()
    cost: float | None = None
    """Cost of the case in US dollars, without that of the judge; None: not known."""
    seconds: float | None = None
    """Seconds without waits for people; None: not known."""
    tokens: int = 0
    turns: int = 0


class Figures(Value):
    """Figures of one metric over all cases, each the mean of its repeats."""

    kind: MetricKind
    mean: float | None = None
    """Mean over the cases that have the score; of pass and fail the share that passed. None for labels."""
    low: float | None = None
    """Lower end of the 95 % interval of the mean; None: too few cases for one."""
    high: float | None = None
    """Upper end of that interval; None: too few cases for one."""
    cases: int = 0
    """Cases with the score."""
    missing: int = 0
    """Cases without the score, those that ended in errors among them."""
    labels: dict[str, int] = Field(default_factory=dict)
    """Runs with each label; empty for other metrics."""


def scores_by_metric(outcomes: Iterable[CaseOutcome]) -> dict[str, dict[str, list[CaseScore]]]:
    """Return the scores of all runs, by metric and case, in the order in which they come first."""
    found: dict[str, dict[str, list[CaseScore]]] = {}
    for outcome in outcomes:
        for score in outcome.scores.scores:
            found.setdefault(score.name, {}).setdefault(outcome.case, []).append(score)
    return found


def kind_of(scores: Iterable[CaseScore]) -> MetricKind:
    """Return the kind of a metric: with any label among its values they are labels, with any number they are scores."""
    values = [score.value for score in scores]
    if any(isinstance(value, str) for value in values):
        return "labels"
    return "passes" if all(isinstance(value, bool) for value in values) else "scores"


def case_means(by_case: Mapping[str, Sequence[CaseScore]]) -> dict[str, float]:
    """Return the mean of each case's repeats, of a metric that is no label."""
    return {
        case: mean_of([float(score.value) for score in scores if not isinstance(score.value, str)])
        for case, scores in by_case.items()
    }


def figures(outcomes: Sequence[CaseOutcome]) -> dict[str, Figures]:
    """Return the figures of every metric, in the order in which metrics come first."""
    cases = dict.fromkeys(outcome.case for outcome in outcomes)
    return {name: _figures(by_case, len(cases)) for name, by_case in scores_by_metric(outcomes).items()}


def _figures(by_case: Mapping[str, Sequence[CaseScore]], cases: int) -> Figures:
    scores = [score for one in by_case.values() for score in one]
    kind, missing = kind_of(scores), cases - len(by_case)
    if kind == "labels":
        labels = Counter(str(score.value) for score in scores)
        return Figures(kind=kind, cases=len(by_case), missing=missing, labels=dict(labels.most_common()))
    means = list(case_means(by_case).values())
    mean = mean_of(means)
    interval = share_interval(mean, len(means)) if kind == "passes" else mean_interval(means)
    low, high = (None, None) if interval is None else interval
    return Figures(kind=kind, mean=mean, low=low, high=high, cases=len(by_case), missing=missing)
