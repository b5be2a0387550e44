"""Comparison of two experiments by their records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.experiments.results import ExperimentRecord
from llm_do_temporal.policy.evaluations.comparison import CaseDelta, Comparison, MetricComparison, compare_cases
from llm_do_temporal.policy.evaluations.experiment import differences, refusals

SHOWN_DIGITS = 12


@dataclass(frozen=True)
class ComparedExperiments:
    """Two experiments and their comparison; the second one is judged."""

    one: ExperimentRecord
    other: ExperimentRecord
    comparison: Comparison
    differences: tuple[str, ...]
    """Differences of their identities, in words."""

    @property
    def is_worse(self) -> bool:
        """Whether the second experiment is worse by any metric."""
        return any(metric.verdict == "worse" for metric in self.comparison.metrics)

    @property
    def lost(self) -> list[tuple[MetricComparison, CaseDelta]]:
        """Cases that got worse, each with its metric, the worst of each metric first."""
        return [(metric, delta) for metric in self.comparison.metrics for delta in metric.deltas if delta.delta < 0]

    @property
    def cases(self) -> list[str]:
        """Cases of both, those first that lost most by any metric."""
        worst: dict[str, float] = {}
        for metric in self.comparison.metrics:
            for delta in metric.deltas:
                worst[delta.case] = min(worst.get(delta.case, 0.0), delta.delta)
        shared = {case.id for case in self.other.spec.cases}
        order = [case.id for case in self.one.spec.cases if case.id in shared]
        return sorted(order, key=lambda case: worst.get(case, 0.0))

    def as_json(self) -> dict[str, Any]:
        """Return the object that `eval compare --json` prints."""
        return {
            "a": experiment_json(self.one),
            "b": experiment_json(self.other),
            "differences": list(self.differences),
            **self.comparison.model_dump(mode="json"),
        }


def compare_records(one: ExperimentRecord, other: ExperimentRecord) -> ComparedExperiments:
    """Compare two experiments. Raises UsageError where judge or cases differ, and for an experiment by itself."""
    if one.digest == other.digest:
        raise UsageError(
            f"'{one.workflow}' and '{other.workflow}' are the same experiment",
            next_step="Name another one; `eval list` has them.",
        )
    reasons = refusals(one.identity, other.identity)
    if reasons:
        raise UsageError(
            f"'{one.workflow}' and '{other.workflow}' cannot be compared: {'. '.join(reasons)}",
            next_step="Scores say which version is better only where cases, evaluators and judge are the same.",
        )
    comparison = compare_cases(one.outcomes, other.outcomes)
    return ComparedExperiments(one, other, comparison, differences(one.identity, other.identity))


def experiment_json(record: ExperimentRecord) -> dict[str, Any]:
    """Return the facts by which an experiment is known."""
    return {
        "experiment": record.workflow,
        "name": record.name,
        "digest": record.digest,
        "worker": record.spec.worker,
        "worker_version": record.worker_version,
        "model": record.model,
        "judge": None if record.spec.judge is None else record.spec.judge.worker,
        "cases": len(record.spec.cases),
        "repeats": record.spec.repeats,
        "state": record.state,
        "started_at": record.started_at.isoformat(),
        "ended_at": None if record.ended_at is None else record.ended_at.isoformat(),
    }
