"""Cases of evaluations: their starts, their scores, what a judge says of them, and the record of all of them.

Scheduled by `LlmDoEvaluation`. Everything big is a blob: the plan, the result of each case, the record. A second
attempt of any of these comes to the same. Histories of cases are read by a function that the service hands in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import activity

from llm_do_temporal.activities.evaluations.python_evaluators import python_score
from llm_do_temporal.activities.evaluations.records import collected, memo_of
from llm_do_temporal.activities.evaluations.starts import case_start, judge_requests, judge_starts, run_of_case
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import in_own_thread
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.json_schema.validation import BoundedMatchers
from llm_do_temporal.messages.activities import COLLECT_RESULTS, JUDGE_CASE, PREPARE_CASE, SCORE_CASE
from llm_do_temporal.messages.experiments.evaluations import (
    CaseReading,
    CollectedResults,
    CollectResultsInput,
    EvaluationPlan,
    EvaluationUnit,
    JudgeCaseInput,
    JudgeStart,
    PrepareCaseInput,
    PreparedCase,
    ScoreCaseInput,
    ScoredCase,
)
from llm_do_temporal.messages.experiments.results import CaseResult, ExperimentRecord, JudgeRun
from llm_do_temporal.policy.evaluations.experiment import case_key, judgement_key
from llm_do_temporal.policy.evaluations.facts import CaseFacts
from llm_do_temporal.policy.evaluations.judgement import (
    failed,
    judge_scores,
    pair_scores,
    python_evaluators,
    score_case,
)
from llm_do_temporal.policy.evaluations.scores import CaseScores
from llm_do_temporal.policy.evaluations.spec import JudgeSpec
from llm_do_temporal.storage.blobs import BlobStore

ReadCase = Callable[[str], Awaitable[CaseReading]]
"""Reads a run that has ended, by its workflow id. Raises LlmDoError."""
REMEMBERED_PLANS = 4
M = TypeVar("M", bound=BaseModel)


class EvaluationActivities:
    """Evaluations of one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore, read_case: ReadCase) -> None:
        self._root = workshop.resolve()
        self._blobs = blobs
        self._read_case = read_case
        self._plan = lru_cache(REMEMBERED_PLANS)(self._read_plan)

    @activity.defn(name=PREPARE_CASE.name)
    def prepare_case(self, asked: PrepareCaseInput) -> PreparedCase:
        """Return the start of a case's run; nothing to start where its result is taken over."""
        with user_errors():
            plan, unit = self._unit(asked.plan, asked.unit)
            taken = plan.taken.get(unit.name, "")
            if taken and not (plan.retry_errors and self._read(CaseResult, taken).facts.error is not None):
                return PreparedCase(taken=taken)
            return PreparedCase(run=run_of_case(plan, unit), start=case_start(plan, unit), taken=taken)

    @activity.defn(name=SCORE_CASE.name)
    async def score_case(self, asked: ScoreCaseInput) -> ScoredCase:
        """Score a case that has ended, or whose result is taken over, and return the judge's runs that it needs."""
        with user_errors():
            plan, unit = await asyncio.to_thread(self._unit, asked.plan, asked.unit)
            before = await asyncio.to_thread(self._read, CaseResult, asked.taken) if asked.taken else None
            reading = CaseReading(facts=before.facts) if before and not asked.run else await self._read_case(asked.run)
            _check_definitions(reading.definitions, plan.identity.definitions, unit.name)
            case, facts = plan.case_of(unit), reading.facts
            scores = await asyncio.to_thread(score_case, plan.spec, case, facts, BoundedMatchers())
            for evaluator in () if facts.error else python_evaluators(plan.spec, case):
                scores = scores.plus(await in_own_thread(python_score, evaluator, case, facts, self._root))
            result = CaseResult(
                case=unit.case,
                repeat=unit.repeat,
                run=asked.run or (before.run if before else ""),
                origin=before.origin if before and not asked.run else "",
                facts=facts,
                scores=scores,
                key=case_key(plan.identity, unit.case, unit.repeat),
                earlier=_earlier(before, again=bool(asked.run)),
            )
            return await asyncio.to_thread(self._scored, plan, unit, result, None if asked.run else before)

    @activity.defn(name=JUDGE_CASE.name)
    async def judge_case(self, asked: JudgeCaseInput) -> ScoredCase:
        """Add what the judge has said of a case to its result."""
        with user_errors():
            plan = await asyncio.to_thread(self._plan, asked.plan)
            result = await asyncio.to_thread(self._read, CaseResult, asked.result)
            judge, identity = plan.spec.judge, plan.identity.judge
            if judge is None or identity is None:
                raise EffectFailed("the evaluation has no judge")
            readings = [await self._read_case(run) for run in asked.runs]
            for reading in readings:
                _check_definitions(reading.definitions, identity.definitions, f"the judge of {result.case}")
            judged = _judged(judge, [reading.facts for reading in readings])
            runs = tuple(_judge_run(run, one.facts) for run, one in zip(asked.runs, readings, strict=True))
            unit = EvaluationUnit(case=result.case, repeat=result.repeat)
            requests = judge_requests(plan, unit, result.facts)
            changes = {
                "scores": result.scores.plus(judged),
                "judged": judged,
                "judges": runs,
                "judgement": "" if judged.failures else judgement_key(plan.identity, result.key, list(requests)),
            }
            kept = await asyncio.to_thread(self._keep, result.model_copy(update=changes))
            return ScoredCase(result=kept, cost=_sum([run.cost for run in runs]))

    @activity.defn(name=COLLECT_RESULTS.name)
    def collect_results(self, asked: CollectResultsInput) -> CollectedResults:
        """Keep the record with these further results in it."""
        with user_errors():
            plan = self._plan(asked.plan)
            before = self._read(ExperimentRecord, asked.record) if asked.record else None
            newer = [self._read(CaseResult, digest) for digest in asked.newer]
            record = collected(plan, before, newer, asked.state)
            kept = self._keep(record)
            return CollectedResults(record=kept, memo=memo_of(plan, record, kept))

    def _scored(
        self, plan: EvaluationPlan, unit: EvaluationUnit, result: CaseResult, taken: CaseResult | None
    ) -> ScoredCase:
        """Keep the result. A judgement that was taken over with it stays; else the judge is asked."""
        starts: tuple[JudgeStart, ...] = ()
        if plan.spec.judge is not None and result.facts.error is None:
            requests = judge_requests(plan, unit, result.facts)
            judgement = judgement_key(plan.identity, result.key, list(requests))
            if taken is not None and taken.judgement == judgement:
                judged = {"judged": taken.judged, "judgement": judgement, "judges": taken.judges}
                result = result.model_copy(update={"scores": result.scores.plus(taken.judged), **judged})
            else:
                starts = judge_starts(plan, unit, requests, attempt=len(result.earlier) + 1)
        return ScoredCase(
            result=self._keep(result),
            error=result.facts.error is not None,
            cost=0.0 if taken is not None else result.facts.usage.cost,
            taken=taken is not None,
            judges=starts,
        )

    def _unit(self, digest: str, number: int) -> tuple[EvaluationPlan, EvaluationUnit]:
        plan = self._plan(digest)
        return plan, plan.units[number]

    def _read_plan(self, digest: str) -> EvaluationPlan:
        return self._read(EvaluationPlan, digest)

    def _read(self, kind: type[M], digest: str) -> M:
        try:
            return kind.model_validate_json(self._blobs.read(digest))
        except ValidationError as error:
            raise EffectFailed(f"blob '{digest}' is no {kind.__name__} that this version reads") from error

    def _keep(self, value: BaseModel) -> str:
        return self._blobs.put_bytes(value.model_dump_json().encode())


def _check_definitions(found: Mapping[str, str], expected: Mapping[str, str], whose: str) -> None:
    """Raise DefinitionError where a worker's file was not the one that the experiment is about."""
    changed = [path for path, sha256 in found.items() if expected.get(path, sha256) != sha256]
    if changed:
        files = ", ".join(f"'{path}'" for path in sorted(changed))
        raise DefinitionError(
            f"{files} was changed while the experiment ran: {whose} was run with other workers than the cases before",
            next_step="Start the evaluation again: that is another experiment, and takes over what is the same.",
        )


def _earlier(before: CaseResult | None, *, again: bool) -> tuple[CaseResult, ...]:
    if before is None:
        return ()
    return (*before.earlier, before.model_copy(update={"earlier": ()})) if again else before.earlier


def _judged(judge: JudgeSpec, said: list[CaseFacts]) -> CaseScores:
    broken = next((facts.error for facts in said if facts.error is not None), None)
    if broken is not None:
        return failed(judge.worker, f"the judge ended in an error: {broken.message}")
    if len(said) == 1:
        return judge_scores(judge, said[0].output)
    return pair_scores(judge, said[0].output, said[1].output)


def _judge_run(run: str, facts: CaseFacts) -> JudgeRun:
    usage = facts.usage
    return JudgeRun(
        run=run,
        seconds=facts.seconds,
        turns=usage.turns,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
    )


def _sum(amounts: list[float | None]) -> float | None:
    """Return the sum; None where an amount is not known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
