"""Thresholds of an evaluation: each kept or not, in words, and with them whether the evaluation passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_do_temporal.policy.evaluations.outcomes import CaseOutcome, Figures, figures, scores_by_metric
from llm_do_temporal.policy.evaluations.paired import mean_of
from llm_do_temporal.policy.evaluations.scores import CaseScore
from llm_do_temporal.policy.evaluations.spec import BESIDE, COUNTED, Threshold
from llm_do_temporal.policy.values import Value

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


def gate(thresholds: Sequence[Threshold], outcomes: Sequence[CaseOutcome], planned: int) -> EvaluationGate:
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


def _counted(threshold: Threshold, outcomes: Sequence[CaseOutcome], planned: int) -> ThresholdVerdict:
    counts = {
        "errors": sum(outcome.error for outcome in outcomes),
        "failures": sum(len(outcome.scores.failures) for outcome in outcomes),
        "missing": planned - len(outcomes),
    }
    count = counts[threshold.metric]
    return _verdict(threshold, float(count), f"{count} {_COUNTED_WORDS[threshold.metric]}")


def _beside(threshold: Threshold, outcomes: Sequence[CaseOutcome]) -> ThresholdVerdict:
    name = threshold.metric
    amounts: list[float | None] = [getattr(outcome, name) for outcome in outcomes if not outcome.error]
    known = [amount for amount in amounts if amount is not None]
    if not known or len(known) < len(amounts):
        return _verdict(threshold, None, f"{name} is not known of {len(amounts) - len(known)} of {len(amounts)} runs")
    mean = mean_of(known)
    return _verdict(threshold, mean, f"{mean:.4g} {_BESIDE_WORDS[name]}")


def _scored(
    threshold: Threshold, found: Figures | None, by_case: Mapping[str, Sequence[CaseScore]]
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
    return mean_of([mean_of([float(score.value == label) for score in scores]) for scores in by_case.values()])


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
