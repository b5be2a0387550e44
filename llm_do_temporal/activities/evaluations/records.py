"""Record of an experiment: results put together, and the figures of them that lists show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from llm_do_temporal.messages.experiments.evaluations import EvaluationPlan
from llm_do_temporal.messages.experiments.results import (
    CaseResult,
    EvaluationMemo,
    ExperimentRecord,
    ExperimentState,
    MetricFigures,
)
from llm_do_temporal.policy.evaluations.outcomes import Figures, figures
from llm_do_temporal.policy.identity import digest_of

MAX_MEMO_METRICS = 40
"""Most metrics in a memo, which the server keeps with the workflow."""


def collected(
    plan: EvaluationPlan, before: ExperimentRecord | None, newer: Sequence[CaseResult], state: ExperimentState
) -> ExperimentRecord:
    """Return the record with these further results, in the order of the cases and their repeats."""
    results = [*(before.results if before else ()), *newer]
    places = {case.id: place for place, case in enumerate(plan.spec.cases)}
    results.sort(key=lambda one: (places.get(one.case, len(places)), one.repeat))
    identity = plan.identity
    ended_at = None
    if state != "running":
        # Thresholds that are judged again change no result: the experiment ended when it did.
        ended_at = (before.ended_at if before is not None and not newer else None) or datetime.now(UTC)
    return ExperimentRecord(
        name=plan.spec.name,
        digest=identity.digest,
        identity=identity,
        workflow=plan.workflow,
        round=plan.round,
        spec=plan.spec,
        worker_version=digest_of(dict(identity.definitions)),
        model=identity.models.get(plan.spec.worker, ""),
        judge_version="" if identity.judge is None else identity.judge.digest,
        started_at=plan.started_at,
        ended_at=ended_at,
        state=state,
        results=tuple(results),
    )


def memo_of(plan: EvaluationPlan, record: ExperimentRecord, digest: str) -> EvaluationMemo:
    """Return the facts about an experiment that lists show; `digest` names the record's blob, empty: there is none."""
    outcomes = record.outcomes
    found = {name: one for name, one in figures(outcomes).items() if one.mean is not None}
    return EvaluationMemo(
        name=record.name,
        digest=record.digest,
        worker=plan.spec.worker,
        worker_version=record.worker_version,
        model=record.model,
        judge="" if plan.spec.judge is None else plan.spec.judge.worker,
        cases=len(plan.spec.cases),
        repeats=plan.spec.repeats,
        done=len(record.results),
        errors=sum(outcome.error for outcome in outcomes),
        round=plan.round,
        started_at=record.started_at,
        metrics={name: _figures(one) for name, one in list(found.items())[:MAX_MEMO_METRICS]},
        cost_usd=_cost(record.results),
        passed=record.gate.passed if record.state == "completed" else None,
        record=digest,
    )


def _figures(found: Figures) -> MetricFigures:
    return MetricFigures(
        mean=found.mean or 0.0, low=found.low, high=found.high, cases=found.cases, missing=found.missing
    )


def _cost(results: Iterable[CaseResult]) -> float | None:
    """Return the dollars of cases and judges, of which the prices are known; None: of none."""
    amounts = [amount for one in results for amount in (one.facts.usage.cost, *(run.cost for run in one.judges))]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
