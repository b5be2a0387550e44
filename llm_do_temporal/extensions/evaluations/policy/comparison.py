"""Comparison of two versions over the same cases: paired by case, tested, corrected, and told in words.

A difference is called one where the test of signs, after Holm's correction over all metrics, says so. Cost, time and
tokens stand beside and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, TypeAlias

from llm_do_temporal.extensions.evaluations.policy.facts import CaseResult, CaseScore, scored
from llm_do_temporal.extensions.evaluations.policy.figures import (
    LEVEL,
    NO_ERROR,
    MetricKind,
    case_means,
    cases_needed,
    holm,
    kind_of,
    mean_interval,
    scores_by_metric,
    sign_test,
    smallest_p,
)
from llm_do_temporal.policy.values import Value

Verdict: TypeAlias = Literal["better", "worse", "no_difference_shown", "too_few", "not_compared"]
"""Verdict on the second version: `not_compared` are labels, which have no order."""
_Intervals: TypeAlias = Callable[[Sequence[float]], tuple[float, float] | None]
_AMOUNTS = {"cost": "${:.4f}", "seconds": "{:.1f} s", "tokens": "{:.0f} tokens"}
"""Amounts that are compared, and how each is written."""


class CaseDelta(Value):
    """Difference of one case: the mean of its repeats in both versions."""

    case: str
    one: float | None
    """Mean in the first version; None for labels."""
    other: float | None
    delta: float
    """Second less first; -1 for labels that differ, else 0."""


class MetricComparison(Value):
    """Comparison of one metric over the cases that have it in both versions."""

    metric: str
    kind: MetricKind
    one: float | None = None
    """Mean of the first version; None: there is no case to compare, or the metric is a label."""
    other: float | None = None
    delta: float | None = None
    """Second less first: above 0 the second version is better."""
    low: float | None = None
    """Lower end of the 95 % interval of the difference; None: too few cases for one, or all differ by the same."""
    high: float | None = None
    wins: int = 0
    """Cases in which the second version is better."""
    ties: int = 0
    losses: int = 0
    p: float | None = None
    """Probability of so large a difference between equal versions; None: not tested."""
    adjusted_p: float | None = None
    """The same after the correction for the number of metrics."""
    verdict: Verdict
    sentence: str
    missing: int = 0
    """Cases that lack the score in one version or both."""
    deltas: tuple[CaseDelta, ...] = ()
    """Differences of the cases, the worst first."""


class AmountComparison(Value):
    """Comparison of what the versions spend: means over the cases in which it is known of both."""

    name: str
    one: float | None = None
    """Mean of a run in the first version; None: not known."""
    other: float | None = None
    delta: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of the difference; None: none is known."""
    high: float | None = None
    sentence: str


class Comparison(Value):
    """Comparison of two versions."""

    metrics: tuple[MetricComparison, ...]
    amounts: tuple[AmountComparison, ...]
    cases: int
    """Cases of both."""
    only_one: tuple[str, ...] = ()
    """Cases that only the first version was run with; they are left out."""
    only_other: tuple[str, ...] = ()
    errors: tuple[int, int] = (0, 0)
    """Runs of the cases of both that ended in an error, of either version."""
    sentences: tuple[str, ...] = ()
    """Facts about the whole: cases that were left out, errors."""


def compare_cases(one: Sequence[CaseResult], other: Sequence[CaseResult], *, intervals: bool = True) -> Comparison:
    """Compare two versions, which sentences call A and B, by the outcomes of their runs.

    Without `intervals`, on which no verdict depends, it is several times as fast.
    """
    interval: _Intervals = mean_interval if intervals else lambda _values: None
    ours, theirs = ({outcome.case for outcome in outcomes} for outcomes in (one, other))
    both = [case for case in dict.fromkeys(outcome.case for outcome in one) if case in theirs]
    shared = set(both)
    one, other = ([outcome for outcome in outcomes if outcome.case in shared] for outcomes in (one, other))
    errors = (sum(outcome.is_error for outcome in one), sum(outcome.is_error for outcome in other))
    only_one, only_other = tuple(sorted(ours - shared)), tuple(sorted(theirs - shared))
    said = (_left_out(len(only_one), len(only_other)), _errors(errors))
    return Comparison(
        metrics=_metrics(both, one, other, interval),
        amounts=tuple(_amount(name, one, other, interval) for name in _AMOUNTS),
        cases=len(both),
        only_one=only_one,
        only_other=only_other,
        errors=errors,
        sentences=tuple(sentence for sentence in said if sentence),
    )


def _metrics(
    cases: Sequence[str],
    one: Sequence[CaseResult],
    other: Sequence[CaseResult],
    interval: _Intervals,
) -> tuple[MetricComparison, ...]:
    ours, theirs = scores_by_metric(_with_errors(one, other)), scores_by_metric(_with_errors(other, one))
    compared = [
        _metric(name, cases, ours.get(name, {}), theirs.get(name, {}), interval)
        for name in dict.fromkeys((*ours, *theirs))
    ]
    # A metric with so few cases that it can show nothing in any event takes no part: it would cost the others.
    tested = {one.metric: one.p for one in compared if one.p is not None and smallest_p(len(one.deltas)) <= LEVEL}
    adjusted = holm(tested)
    return tuple(_judged(found, adjusted.get(found.metric), len(tested)) for found in compared)


def _with_errors(outcomes: Sequence[CaseResult], others: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """Return the outcomes with a score for having ended without an error, where any of both versions has one."""
    if not any(outcome.is_error for outcome in (*outcomes, *others)):
        return outcomes
    return [
        outcome.model_copy(update={"scores": outcome.scores.plus(scored(NO_ERROR, not outcome.is_error))})
        for outcome in outcomes
    ]


def _metric(
    name: str,
    cases: Sequence[str],
    ours: Mapping[str, Sequence[CaseScore]],
    theirs: Mapping[str, Sequence[CaseScore]],
    interval: _Intervals,
) -> MetricComparison:
    """Return the figures of a metric, without its verdict."""
    kind = kind_of(score for by_case in (ours, theirs) for scores in by_case.values() for score in scores)
    paired = [case for case in cases if case in ours and case in theirs]
    figures: dict[str, Any] = {}
    if kind == "labels":
        deltas = [_changed_label(case, ours[case], theirs[case]) for case in paired]
    else:
        one, other = case_means(ours), case_means(theirs)
        sizes = [other[case] - one[case] for case in paired]
        deltas = [
            CaseDelta(case=case, one=one[case], other=other[case], delta=size)
            for case, size in zip(paired, sizes, strict=True)
        ]
        if sizes:
            means = {"one": fmean(one[case] for case in paired), "other": fmean(other[case] for case in paired)}
            low, high = interval(sizes) or (None, None)
            figures = {**means, "delta": fmean(sizes), "low": low, "high": high, "p": sign_test(sizes)}
    wins, losses = sum(one.delta > 0 for one in deltas), sum(one.delta < 0 for one in deltas)
    return MetricComparison(
        metric=name,
        kind=kind,
        wins=wins,
        ties=len(deltas) - wins - losses,
        losses=losses,
        missing=len(cases) - len(paired),
        deltas=tuple(sorted(deltas, key=lambda one: (one.delta, one.case))),
        verdict="not_compared",
        sentence="",
        **figures,
    )


def _changed_label(case: str, ours: Sequence[CaseScore], theirs: Sequence[CaseScore]) -> CaseDelta:
    same = sorted(str(score.value) for score in ours) == sorted(str(score.value) for score in theirs)
    return CaseDelta(case=case, one=None, other=None, delta=0.0 if same else -1.0)


def _judged(found: MetricComparison, adjusted: float | None, metrics: int) -> MetricComparison:
    """Return the figures of a metric with their verdict."""
    pairs = len(found.deltas)
    if found.kind == "labels":
        sentence = f"labels changed in {found.losses} of {_cases(pairs)}; labels have no order and are not tested."
        return found.model_copy(update={"sentence": sentence})
    verdict: Verdict = "no_difference_shown"
    if adjusted is None or smallest_p(pairs) * metrics > LEVEL:
        verdict = "too_few"
    elif adjusted <= LEVEL:
        verdict = "better" if (found.delta or 0) > 0 else "worse"
    judged = found.model_copy(update={"verdict": verdict, "adjusted_p": adjusted})
    return judged.model_copy(update={"sentence": _sentence(judged, cases_needed(metrics))})


def _sentence(found: MetricComparison, needed: int) -> str:
    """Return the verdict in words; `needed` is the number of cases from which on a difference could be shown."""
    missing = f" ({found.missing} without the score left out)" if found.missing else ""
    if found.one is None or found.other is None or found.delta is None:
        return f"no case has this score in both versions{missing}."
    unit, mean, change = (100, "{:.1f} %", "{:+.1f} points") if found.kind == "passes" else (1, "{:.3g}", "{:+.3g}")
    one, other = (mean.format(unit * value) for value in (found.one, found.other))
    around = ""
    if found.low is not None and found.high is not None:
        around = f" (95 %: {change.format(unit * found.low)} to {change.format(unit * found.high)})"
    delta = change.format(unit * found.delta)
    said = f"A {one}, B {other}, difference {delta}{around}, {_cases(len(found.deltas))}{missing}"
    if found.verdict == "too_few":
        return f"too few cases to tell: {said}; it takes {needed} to show any difference."
    p_value = 1.0 if found.adjusted_p is None else found.adjusted_p
    probability = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    verdict = "no difference shown" if found.verdict == "no_difference_shown" else f"B is {found.verdict}"
    return f"{verdict}: {said}, {probability}."


def _amount(
    name: str,
    one: Sequence[CaseResult],
    other: Sequence[CaseResult],
    interval: _Intervals,
) -> AmountComparison:
    ours, theirs = _amounts(one, name), _amounts(other, name)
    paired = [case for case in ours if case in theirs]
    if not paired:
        return AmountComparison(name=name, sentence=f"{name} is not known of both versions.")
    before, now = fmean(ours[case] for case in paired), fmean(theirs[case] for case in paired)
    deltas = [theirs[case] - ours[case] for case in paired]
    low, high = interval(deltas) or (None, None)
    form = _AMOUNTS[name]
    share = "" if before == 0 else f", {(now - before) / before:+.0%}".replace("%", " %")
    around = ""
    if low is not None and high is not None:
        around = f" (95 % of the difference: {form.format(low)} to {form.format(high)})"
    sentence = f"A {form.format(before)}, B {form.format(now)} a case{share}{around}."
    return AmountComparison(
        name=name, one=before, other=now, delta=fmean(deltas), low=low, high=high, sentence=sentence
    )


def _amounts(outcomes: Iterable[CaseResult], name: str) -> dict[str, float]:
    """Return the mean amount of each case, of those runs without an error in which it is known."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        amount: float | None = getattr(outcome, name)
        if amount is not None and not outcome.is_error:
            found.setdefault(outcome.case, []).append(float(amount))
    return {case: fmean(amounts) for case, amounts in found.items()}


def _errors(errors: tuple[int, int]) -> str:
    """Return how many runs ended in errors, in words; empty for none."""
    if not any(errors):
        return ""
    one, other = ("1 run" if count == 1 else f"{count} runs" for count in errors)
    return (
        f"{one} of A and {other} of B ended in an error: an error is no wrong answer and has no "
        "scores, so other metrics compare the runs that are left."
    )


def _left_out(only_one: int, only_other: int) -> str:
    """Return how many cases only one version was run with, in words; empty for none."""
    parts = [f"{_cases(count)} only {name} has" for name, count in (("A", only_one), ("B", only_other)) if count]
    return f"left out: {' and '.join(parts)}." if parts else ""


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"
