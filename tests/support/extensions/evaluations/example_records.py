"""Records of experiments that tests read."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from llm_do_temporal.extensions.evaluations.client import ExperimentListing
from llm_do_temporal.extensions.evaluations.messages import EvaluationMemo, ExperimentRecord
from llm_do_temporal.extensions.evaluations.policy.experiment import experiment_identity
from llm_do_temporal.extensions.evaluations.policy.figures import figures
from llm_do_temporal.extensions.evaluations.policy.scores import (
    CaseCall,
    CaseError,
    CaseFacts,
    CaseFile,
    CaseResult,
    CaseScore,
    CaseScores,
    CaseUsage,
    EvaluationCase,
    EvaluationSpec,
    EvaluatorFailure,
    JudgeRun,
    JudgeSpec,
    Threshold,
)

BEGAN = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\x1b[31m| `a` \u202eevil"


def example_record(
    *,
    name: str = "pitches",
    digest: str = "a" * 64,
    cases: int = 6,
    repeats: int = 2,
    shift: float = 0.0,
    began: datetime = BEGAN,
    errors: tuple[str, ...] = (),
    worker_version: str = "b" * 64,
    **changes: Any,
) -> ExperimentRecord:
    """Return the record of an experiment with a judge, whose scores are `shift` higher than those of the default."""
    spec = EvaluationSpec(
        name=name,
        worker="evaluator",
        repeats=repeats,
        cases=tuple(
            EvaluationCase(id=f"deck-{number}", prompt=f"Evaluate deck {number}.", expected={"verdict": "yes"})
            for number in range(1, cases + 1)
        ),
        judge=JudgeSpec(worker="critic"),
        thresholds=(Threshold(metric="correct", at_least=0.5),),
    )
    chance = random.Random(7)
    results: list[CaseResult] = []
    for case in spec.cases:
        for repeat in range(1, repeats + 1):
            quality = min(max(chance.random() * 0.6 + 0.2 + shift, 0.0), 1.0)
            results.append(_result(name, digest, case.id, repeat, quality, fails=case.id in errors))
    values: dict[str, Any] = {
        "name": name,
        "digest": f"1-{digest}",
        "identity": experiment_identity(
            spec,
            definitions={"evaluator.worker": worker_version},
            models={"evaluator": "offline:examples"},
            judge_definitions={"critic.worker": "c" * 64},
            judge_models={"critic": "offline:examples"},
        ),
        "workflow": f"eval-{name}-{digest[:12]}",
        "spec": spec,
        "worker_version": worker_version,
        "model": "offline:examples",
        "judge_version": "c" * 64,
        "started_at": began,
        "ended_at": began + timedelta(minutes=7),
        "state": "completed",
        "results": tuple(results),
    }
    return ExperimentRecord.model_validate(values | changes)


def _result(name: str, digest: str, case: str, repeat: int, quality: float, *, fails: bool) -> CaseResult:
    run = f"eval-{name}-{digest[:12]}/{case}/{repeat}"
    usage = CaseUsage(turns=3, tool_calls=2, input_tokens=1200, output_tokens=300, cost=0.0125)
    if fails:
        facts = CaseFacts(error=CaseError(type="ModelFailed", message="the provider said no"), usage=usage, seconds=2.5)
        return CaseResult(case=case, repeat=repeat, run=run, facts=facts)
    facts = CaseFacts(
        output={"verdict": "yes" if quality > 0.5 else "no", "remark": HOSTILE},
        usage=usage,
        seconds=4.5,
        calls=(CaseCall(tool="write_file", args={"path": "/out.md"}, decision="approved"),),
        files={"/out.md": CaseFile(sha256="d" * 64, bytes=12, text=f"Score: {quality:.2f}")},
    )
    scores = CaseScores(
        scores=(
            CaseScore(name="correct", value=quality > 0.5, reason="" if quality > 0.5 else "the verdict is 'no'"),
            CaseScore(name="critic.quality", value=round(quality, 3), reason=HOSTILE),
            CaseScore(name="tone", value="calm" if quality > 0.4 else "harsh"),
        ),
        failures=(EvaluatorFailure(name="polite", message="polite.py cannot be read"),) if case == "deck-1" else (),
    )
    judges = (JudgeRun(run=f"{run}/judge", seconds=1.5, turns=1, input_tokens=400, output_tokens=50, cost=0.002),)
    return CaseResult(case=case, repeat=repeat, run=run, facts=facts, scores=scores, judges=judges)


def case_result(
    case: str,
    repeat: int = 1,
    *,
    error: bool = False,
    scores: CaseScores = CaseScores(),  # noqa: B008 - frozen
    cost: float | None = None,
    seconds: float | None = None,
    tokens: int = 0,
    turns: int = 0,
) -> CaseResult:
    """Return the result of one run of a case, of which nothing else is known."""
    facts = CaseFacts(
        error=CaseError(type="ModelFailed", message="no answer") if error else None,
        usage=CaseUsage(cost=cost, turns=turns, input_tokens=tokens),
        seconds=seconds,
    )
    return CaseResult(case=case, repeat=repeat, run=case, facts=facts, scores=scores)


def example_listing(record: ExperimentRecord, **changes: Any) -> ExperimentListing:
    figures_of = figures(record.results).items()
    costs = [result.facts.usage.cost or 0 for result in record.results]
    facts = EvaluationMemo(
        name=record.name,
        digest=record.digest,
        worker=record.spec.worker,
        worker_version=record.worker_version,
        model=record.model,
        judge="" if record.spec.judge is None else record.spec.judge.worker,
        cases=len(record.spec.cases),
        repeats=record.spec.repeats,
        done=len(record.results),
        errors=sum(result.facts.error is not None for result in record.results),
        started_at=record.started_at,
        metrics={name: one for name, one in figures_of if one.mean is not None},
        cost_usd=sum(costs),
        passed=record.gate.passed,
        record="9" * 64,
    )
    values: dict[str, Any] = {
        "workflow": record.workflow,
        "state": record.state,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "facts": facts.model_copy(update=changes.pop("facts", {})),
    }
    return ExperimentListing(**(values | changes))
