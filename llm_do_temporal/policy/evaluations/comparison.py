"""Comparison of two versions over the same cases: paired by case, tested, corrected, and told in words.

A difference is called one where the test of signs, after Holm's correction over all metrics, says so. Cost, time and
tokens stand beside and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from llm_do_temporal.policy.evaluations.outcomes import (
    NO_ERROR,
    CaseOutcome,
    MetricKind,
    case_means,
    kind_of,
    scores_by_metric,
)
from llm_do_temporal.policy.evaluations.paired import (
    LEVEL,
    cases_needed,
    holm,
    mean_interval,
    mean_of,
    sign_test,
    smallest_p,
)
from llm_do_temporal.policy.evaluations.scores import CaseScore
from llm_do_temporal.policy.evaluations.verdict_words import (
    amount_sentence,
    error_sentence,
    label_sentence,
    left_out_sentence,
    metric_sentence,
)
from llm_do_temporal.policy.values import Value

Verdict: TypeAlias = Literal["better", "worse", "no_difference_shown", "too_few", "not_compared"]
"""Verdict on the second version: `not_compared` are labels, which have no order."""
_Intervals: TypeAlias = Callable[[Sequence[float]], tuple[float, float] | None]
AMOUNTS = ("cost", "seconds", "tokens")


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


def compare_cases(
    one: Sequence[CaseOutcome],
    other: Sequence[CaseOutcome],
    names: tuple[str, str] = ("A", "B"),
    *,
    intervals: bool = True,
) -> Comparison:
    """Compare two versions by the outcomes of their runs; `names` are for the sentences.

    Without `intervals`, on which no verdict depends, it is several times as fast.
    """
    interval = mean_interval if intervals else _no_interval
    ours, theirs = ({outcome.case for outcome in outcomes} for outcomes in (one, other))
    both = [case for case in dict.fromkeys(outcome.case for outcome in one) if case in theirs]
    shared = set(both)
    one, other = ([outcome for outcome in outcomes if outcome.case in shared] for outcomes in (one, other))
    errors = (sum(outcome.error for outcome in one), sum(outcome.error for outcome in other))
    only_one, only_other = tuple(sorted(ours - shared)), tuple(sorted(theirs - shared))
    said = (left_out_sentence(len(only_one), len(only_other), names), error_sentence(errors, names))
    return Comparison(
        metrics=_metrics(both, one, other, names, interval),
        amounts=tuple(_amount(name, one, other, names, interval) for name in AMOUNTS),
        cases=len(both),
        only_one=only_one,
        only_other=only_other,
        errors=errors,
        sentences=tuple(sentence for sentence in said if sentence),
    )


def _no_interval(_values: Sequence[float]) -> None:
    return None


def _metrics(
    cases: Sequence[str],
    one: Sequence[CaseOutcome],
    other: Sequence[CaseOutcome],
    names: tuple[str, str],
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
    return tuple(_judged(found, adjusted.get(found.metric), len(tested), names) for found in compared)


def _with_errors(outcomes: Sequence[CaseOutcome], others: Sequence[CaseOutcome]) -> Sequence[CaseOutcome]:
    """Return the outcomes with a score for having ended without an error, where any of both versions has one."""
    if not any(outcome.error for outcome in (*outcomes, *others)):
        return outcomes
    return [
        outcome.model_copy(
            update={
                "scores": outcome.scores.model_copy(
                    update={"scores": (*outcome.scores.scores, CaseScore(name=NO_ERROR, value=not outcome.error))}
                )
            }
        )
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
    missing = len(cases) - len(paired)
    if kind == "labels":
        changed = [_changed_label(case, ours[case], theirs[case]) for case in paired]
        return _counted(MetricComparison(metric=name, kind=kind, verdict="not_compared", sentence=""), changed, missing)
    one, other = case_means(ours), case_means(theirs)
    deltas = [CaseDelta(case=case, one=one[case], other=other[case], delta=other[case] - one[case]) for case in paired]
    found = _counted(MetricComparison(metric=name, kind=kind, verdict="too_few", sentence=""), deltas, missing)
    if not deltas:
        return found
    sizes = [delta.delta for delta in deltas]
    low, high = interval(sizes) or (None, None)
    means = {
        "one": mean_of([one[case] for case in paired]),
        "other": mean_of([other[case] for case in paired]),
        "delta": mean_of(sizes),
    }
    return found.model_copy(update={**means, "low": low, "high": high, "p": sign_test(sizes)})


def _counted(found: MetricComparison, deltas: Iterable[CaseDelta], missing: int) -> MetricComparison:
    ordered = tuple(sorted(deltas, key=lambda delta: (delta.delta, delta.case)))
    wins, losses = sum(one.delta > 0 for one in ordered), sum(one.delta < 0 for one in ordered)
    ties = len(ordered) - wins - losses
    counts = {"wins": wins, "ties": ties, "losses": losses, "missing": missing, "deltas": ordered}
    return found.model_copy(update=counts)


def _changed_label(case: str, ours: Sequence[CaseScore], theirs: Sequence[CaseScore]) -> CaseDelta:
    same = sorted(str(score.value) for score in ours) == sorted(str(score.value) for score in theirs)
    return CaseDelta(case=case, one=None, other=None, delta=0.0 if same else -1.0)


def _judged(found: MetricComparison, adjusted: float | None, metrics: int, names: tuple[str, str]) -> MetricComparison:
    """Return the figures of a metric with their verdict."""
    pairs = len(found.deltas)
    if found.kind == "labels":
        return found.model_copy(update={"sentence": label_sentence(found.losses, pairs)})
    verdict: Verdict = "no_difference_shown"
    if adjusted is None or smallest_p(pairs) * metrics > LEVEL:
        verdict = "too_few"
    elif adjusted <= LEVEL:
        verdict = "better" if (found.delta or 0) > 0 else "worse"
    sentence = metric_sentence(
        verdict=verdict,
        shares=found.kind == "passes",
        means=(found.one, found.other, found.delta),
        interval=(found.low, found.high),
        p_value=1.0 if adjusted is None else adjusted,
        pairs=pairs,
        missing=found.missing,
        needed=cases_needed(max(1, metrics)),
        names=names,
    )
    return found.model_copy(update={"verdict": verdict, "adjusted_p": adjusted, "sentence": sentence})


def _amount(
    name: str,
    one: Sequence[CaseOutcome],
    other: Sequence[CaseOutcome],
    names: tuple[str, str],
    interval: _Intervals,
) -> AmountComparison:
    ours, theirs = _amounts(one, name), _amounts(other, name)
    paired = [case for case in ours if case in theirs]
    if not paired:
        return AmountComparison(name=name, sentence=amount_sentence(name, None, None, (None, None), names))
    means = mean_of([ours[case] for case in paired]), mean_of([theirs[case] for case in paired])
    deltas = [theirs[case] - ours[case] for case in paired]
    low, high = interval(deltas) or (None, None)
    return AmountComparison(
        name=name,
        one=means[0],
        other=means[1],
        delta=mean_of(deltas),
        low=low,
        high=high,
        sentence=amount_sentence(name, means[0], means[1], (low, high), names),
    )


def _amounts(outcomes: Iterable[CaseOutcome], name: str) -> dict[str, float]:
    """Return the mean amount of each case, of those runs without an error in which it is known."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        amount: float | None = getattr(outcome, name)
        if amount is not None and not outcome.error:
            found.setdefault(outcome.case, []).append(float(amount))
    return {case: mean_of(amounts) for case, amounts in found.items()}
