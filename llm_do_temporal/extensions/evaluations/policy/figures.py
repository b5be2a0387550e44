"""Figures of metrics over cases: statistics of pairs, means, thresholds, and the comparison of two versions.

Statistics take one difference, or one mean, for each case: repeats of a case are no cases of their own. Chance comes
from SHAKE-256 of a fixed seed, so that the same cases give the same figures on every machine and in every version of
Python. Versions are paired by case. A difference is called one where the test of signs, after Holm's correction over
all metrics, says so. Cost, time and tokens stand beside and decide nothing.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist, fmean
from typing import Any, Literal, TypeAlias

from pydantic import Field

from llm_do_temporal.extensions.evaluations.policy.scores import (
    BESIDE,
    COUNTED,
    CaseResult,
    CaseScore,
    Threshold,
    scored,
)
from llm_do_temporal.messages.base import Message, is_empty
from llm_do_temporal.policy.values import Value

LEVEL = 0.05
"""Share of comparisons of equal versions that may be called different."""
RESAMPLES = 5_000
"""Samples of a bootstrap."""
SHUFFLES = 19_999
"""Random changes of signs, where there are too many to try all."""
MAX_EXACT = 14
"""Differences of which all changes of signs are tried: 2 to this power."""
MAX_RESAMPLED = 1_000
"""Cases up to which intervals are bootstrapped."""
MIN_CASES = 6
"""Cases below which no interval is given: as few as cannot show a difference, however large."""
_SEED = b"llm-do-temporal evaluations 1"
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - LEVEL / 2)
_SLACK = 1e-9
"""Relative difference below which sums are the same: they are added up in other orders."""


def mcnemar(wins: int, losses: int) -> float:
    """Return the p-value of McNemar's exact test: how likely so uneven a share of wins is, if each was a coin's toss.

    Two-sided; 1 where there is neither.
    """
    count = wins + losses
    tail = sum(math.comb(count, least) for least in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / 2**count)


def sign_test(deltas: Sequence[float]) -> float:
    """Return the p-value of the differences: how likely so large a sum is, if each could as well be the other way.

    Two-sided, and exact for up to `MAX_EXACT` differences; for more, of random changes of signs, of which that of the
    real differences is one. For differences that are all 1 or -1 it is McNemar's test.
    """
    sizes = [delta for delta in deltas if delta]
    if not sizes:
        return 1.0
    if len({abs(delta) for delta in sizes}) == 1:
        wins = sum(delta > 0 for delta in sizes)
        return mcnemar(wins, len(sizes) - wins)
    reached = abs(math.fsum(sizes)) - _SLACK * math.fsum(map(abs, sizes))
    if len(sizes) <= MAX_EXACT:
        sums = _all_sums(sizes)
        return sum(abs(total) >= reached for total in sums) / len(sums)
    extreme = sum(abs(total) >= reached for total in _random_sums(sizes))
    return (1 + extreme) / (1 + SHUFFLES)


def _all_sums(sizes: Sequence[float]) -> list[float]:
    sums = [0.0]
    for size in sizes:
        sums = [total + sign * size for total in sums for sign in (1, -1)]
    return sums


def _random_sums(sizes: Sequence[float]) -> Iterator[float]:
    """Yield sums of the differences with random signs: a byte of chance for every eight of them."""
    groups = [_all_sums(sizes[start : start + 8]) for start in range(0, len(sizes), 8)]
    # A last group of fewer than eight has fewer sums, of which each is as likely.
    masks = [len(group) - 1 for group in groups]
    chance = _chance(SHUFFLES * len(groups))
    for start in range(0, len(chance), len(groups)):
        yield math.fsum(
            group[byte & mask]
            for group, mask, byte in zip(groups, masks, chance[start : start + len(groups)], strict=True)
        )


def smallest_p(cases: int) -> float:
    """Return the smallest p-value that so many cases can have: that of differences that all go one way."""
    return min(1.0, 2.0 ** (1 - cases))


def cases_needed(metrics: int) -> int:
    """Return the number of cases from which on a difference can be shown, where so many metrics are compared."""
    return math.ceil(1 + math.log2(max(1, metrics) / LEVEL))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values after Holm's correction for their number, by the same names."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    adjusted: dict[str, float] = {}
    highest = 0.0
    for place, (name, p_value) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - place) * p_value))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean: bias-corrected and accelerated bootstrap (BCa) over the cases.

    For more than `MAX_RESAMPLED` values the normal one, which is then the same. None for fewer than `MIN_CASES` values,
    and for values that are all equal: they do not show by how much they might differ.
    """
    count = len(values)
    if count < MIN_CASES or max(values) == min(values):
        return None
    mean = fmean(values)
    if count > MAX_RESAMPLED:
        half = _Z * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
        return mean - half, mean + half
    means = sorted(_resampled_means(values))
    below = sum(one < mean for one in means) + sum(one == mean for one in means) / 2
    bias = _NORMAL.inv_cdf(min(max(below / len(means), 0.5 / len(means)), 1 - 0.5 / len(means)))
    away = [value - mean for value in values]
    squares = math.fsum(one**2 for one in away)
    acceleration = math.fsum(one**3 for one in away) / (6 * squares**1.5)
    ends: list[float] = []
    for level in (LEVEL / 2, 1 - LEVEL / 2):
        shifted = bias + _NORMAL.inv_cdf(level)
        ends.append(_quantile(means, _NORMAL.cdf(bias + shifted / (1 - acceleration * shifted))))
    return ends[0], ends[1]


def share_interval(share: float, cases: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a share of cases: Wilson's score interval, which holds for 0 and 1, too.

    None for fewer than `MIN_CASES` cases.
    """
    if cases < MIN_CASES:
        return None
    weight = _Z**2 / cases
    middle = (share + weight / 2) / (1 + weight)
    half = _Z * math.sqrt((share * (1 - share) + weight / 4) / cases) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _resampled_means(values: Sequence[float]) -> Iterator[float]:
    """Yield means of as many values as there are, each drawn from all of them."""
    count = len(values)
    words: tuple[int, ...] = struct.unpack(f"<{RESAMPLES * count}I", _chance(4 * RESAMPLES * count))
    for start in range(0, len(words), count):
        # A product's upper half is as even as the chance: 32 bits for some thousand cases.
        yield sum(values[word * count >> 32] for word in words[start : start + count]) / count


def _chance(count: int) -> bytes:
    return hashlib.shake_256(_SEED).digest(count)


MetricKind: TypeAlias = Literal["passes", "scores", "labels"]
NO_ERROR = "no error"
"""Metric that compares how many runs ended without an error; it is there where any did not."""


def known_sum(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of the amounts that are known; None: none is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


class MetricFigures(Message):
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
    labels: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """Runs with each label; empty for other metrics."""


def scores_by_metric(outcomes: Iterable[CaseResult]) -> dict[str, dict[str, list[CaseScore]]]:
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
        case: fmean([float(score.value) for score in scores if not isinstance(score.value, str)])
        for case, scores in by_case.items()
    }


def figures(outcomes: Sequence[CaseResult]) -> dict[str, MetricFigures]:
    """Return the figures of every metric, in the order in which metrics come first."""
    cases = dict.fromkeys(outcome.case for outcome in outcomes)
    return {name: _figures_of(by_case, len(cases)) for name, by_case in scores_by_metric(outcomes).items()}


def _figures_of(by_case: Mapping[str, Sequence[CaseScore]], cases: int) -> MetricFigures:
    scores = [score for one in by_case.values() for score in one]
    kind, missing = kind_of(scores), cases - len(by_case)
    if kind == "labels":
        labels = Counter(str(score.value) for score in scores)
        return MetricFigures(kind=kind, cases=len(by_case), missing=missing, labels=dict(labels.most_common()))
    means = list(case_means(by_case).values())
    mean = fmean(means)
    interval = share_interval(mean, len(means)) if kind == "passes" else mean_interval(means)
    low, high = (None, None) if interval is None else interval
    return MetricFigures(kind=kind, mean=mean, low=low, high=high, cases=len(by_case), missing=missing)


_COUNTED_WORDS = {
    "errors": "runs of cases ended in an error",
    "failures": "evaluators could not judge a run",
    "missing": "runs of cases are missing",
}
_BESIDE_WORDS = {"cost": "dollars a run", "seconds": "seconds a run", "tokens": "tokens a run", "turns": "turns a run"}


class ThresholdVerdict(Value):
    """Threshold that is kept, or not."""

    metric: str
    passed: bool
    value: float | None
    """Value that was compared; None: there is none, and the threshold is not kept."""
    sentence: str


class EvaluationGate(Value):
    """All thresholds together: the evaluation passes where each is kept."""

    passed: bool
    verdicts: tuple[ThresholdVerdict, ...]


def gate(thresholds: Sequence[Threshold], outcomes: Sequence[CaseResult], planned: int) -> EvaluationGate:
    """Judge the outcomes of `planned` runs by the thresholds.

    Errors, failures of evaluators and missing runs must be 0 where no threshold says how many are allowed: scores are
    those of the runs that are left, and would hide them.
    """
    given = {threshold.metric for threshold in thresholds if threshold.at_most is not None}
    implied = [Threshold(metric=name, at_most=0) for name in COUNTED if name not in given]
    found, by_metric = figures(outcomes), scores_by_metric(outcomes)
    verdicts: list[ThresholdVerdict] = []
    for threshold in thresholds:
        if threshold.metric in COUNTED:
            verdicts.append(_counted(threshold, outcomes, planned))
        elif threshold.metric in BESIDE:
            verdicts.append(_beside(threshold, outcomes))
        else:
            metric = threshold.metric
            verdicts.append(_scored(threshold, found.get(metric), by_metric.get(metric, {})))
    # What nobody asked for is told only where it fails.
    verdicts += [verdict for one in implied if not (verdict := _counted(one, outcomes, planned)).passed]
    return EvaluationGate(passed=all(verdict.passed for verdict in verdicts), verdicts=tuple(verdicts))


def _counted(threshold: Threshold, outcomes: Sequence[CaseResult], planned: int) -> ThresholdVerdict:
    counts = {
        "errors": sum(outcome.is_error for outcome in outcomes),
        "failures": sum(len(outcome.scores.failures) for outcome in outcomes),
        "missing": planned - len(outcomes),
    }
    count = counts[threshold.metric]
    return _verdict(threshold, float(count), f"{count} {_COUNTED_WORDS[threshold.metric]}")


def _beside(threshold: Threshold, outcomes: Sequence[CaseResult]) -> ThresholdVerdict:
    name = threshold.metric
    amounts: list[float | None] = [getattr(outcome, name) for outcome in outcomes if not outcome.is_error]
    known = [amount for amount in amounts if amount is not None]
    if not known or len(known) < len(amounts):
        return _verdict(threshold, None, f"{name} is not known of {len(amounts) - len(known)} of {len(amounts)} runs")
    mean = fmean(known)
    return _verdict(threshold, mean, f"{mean:.4g} {_BESIDE_WORDS[name]}")


def _scored(
    threshold: Threshold, found: MetricFigures | None, by_case: Mapping[str, Sequence[CaseScore]]
) -> ThresholdVerdict:
    if found is None:
        return _verdict(threshold, None, "no case has this score")
    if threshold.label is not None and found.kind != "labels":
        return _verdict(threshold, None, "its scores are no labels: give the threshold no `label`")
    value = found.mean if threshold.label is None else _share(threshold.label, by_case)
    if value is None:
        labels = ", ".join(f"'{label}'" for label in list(found.labels)[:5])
        return _verdict(threshold, None, f"its scores are labels ({labels}): give the threshold a `label`")
    left_out = f", {found.missing} without the score left out" if found.missing else ""
    share = f"{100 * value:.1f} %" if found.kind == "passes" or threshold.label is not None else f"{value:.4g}"
    return _verdict(threshold, value, f"{share} over {found.cases} cases{left_out}")


def _share(label: str, by_case: Mapping[str, Sequence[CaseScore]]) -> float:
    return fmean([fmean([float(score.value == label) for score in scores]) for scores in by_case.values()])


def _verdict(threshold: Threshold, value: float | None, words: str) -> ThresholdVerdict:
    low, high = threshold.at_least, threshold.at_most
    passed = value is not None and (low is None or value >= low) and (high is None or value <= high)
    bounds = [f"{name} {bound:g}" for name, bound in (("at least", low), ("at most", high)) if bound is not None]
    wanted = f"{' and '.join(bounds)}{'' if threshold.label is None else f' of label {threshold.label!r}'}"
    return ThresholdVerdict(
        metric=threshold.metric,
        passed=passed,
        value=value,
        sentence=f"{threshold.metric}: {words}; wanted {wanted}: {'kept' if passed else 'not kept'}.",
    )


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
    return Comparison(
        metrics=_metrics(both, one, other, interval),
        amounts=tuple(_amount(name, one, other, interval) for name in _AMOUNTS),
        cases=len(both),
        only_one=only_one,
        only_other=only_other,
        errors=errors,
        sentences=tuple(_told((len(only_one), len(only_other)), errors)),
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


def _told(left_out: tuple[int, int], errors: tuple[int, int]) -> Iterator[str]:
    """Yield the facts about the whole: cases of A and of B alone, and runs of A and of B that ended in an error."""
    parts = [f"{_cases(count)} only {name} has" for name, count in zip("AB", left_out, strict=True) if count]
    if parts:
        yield f"left out: {' and '.join(parts)}."
    if any(errors):
        one, other = ("1 run" if count == 1 else f"{count} runs" for count in errors)
        yield (
            f"{one} of A and {other} of B ended in an error: an error is no wrong answer and has no "
            "scores, so other metrics compare the runs that are left."
        )


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"
