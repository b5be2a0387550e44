"""Cases of evaluations: their starts, their scores, what a judge says of them, and the record of all of them.

Scheduled by `LlmDoEvaluation`. Everything big is a blob: the plan, the result of each case, the record. A second
attempt of any of these comes to the same. Histories of cases are read by a function that the service hands in. Python
functions that evaluate run in a thread, as the functions of `tools.py` do; an exception of one is a failure of the
evaluator, and no score.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import activity
from temporalio.client import Client

from llm_do_temporal.activities.python_tools import without_host_folders
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import contained, in_own_thread, is_interruption
from llm_do_temporal.callers import run_in_thread
from llm_do_temporal.definitions.tools.authors_code import importable
from llm_do_temporal.definitions.tools.python_functions import describe_exception
from llm_do_temporal.definitions.tools.python_tools import load_callable
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.extensions.evaluations.files import evaluator_source
from llm_do_temporal.extensions.evaluations.messages import (
    COLLECT_RESULTS,
    JUDGE_CASE,
    PREPARE_CASE,
    SCORE_CASE,
    CaseReading,
    CollectedResults,
    CollectResultsInput,
    EvaluationMemo,
    EvaluationPlan,
    EvaluationUnit,
    ExperimentRecord,
    ExperimentState,
    JudgeCaseInput,
    JudgeStart,
    PrepareCaseInput,
    PreparedCase,
    ScoreCaseInput,
    ScoredCase,
    cost_of,
)
from llm_do_temporal.extensions.evaluations.policy.experiment import case_key, judge_run_id, judgement_key
from llm_do_temporal.extensions.evaluations.policy.figures import figures
from llm_do_temporal.extensions.evaluations.policy.scores import (
    EXPECTED,
    CaseFacts,
    CaseResult,
    CaseScores,
    EvaluationCase,
    EvaluatorProblem,
    JudgeRun,
    JudgeSpec,
    Python,
    failed,
    judge_request,
    judge_scores,
    pair_requests,
    pair_scores,
    python_scores,
    score_case,
)
from llm_do_temporal.json_schema import UnusableSchema, find_problems
from llm_do_temporal.json_schema.patterns import TooMuchWork
from llm_do_temporal.json_schema.validation import pattern_found
from llm_do_temporal.messages.approvals import ScriptedAnswer
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.storage.blobs import BlobStore

ReadCase = Callable[[str], Awaitable[CaseReading]]
"""Reads a run that has ended, by its workflow id. Raises LlmDoError."""
REMEMBERED_PLANS = 4
M = TypeVar("M", bound=BaseModel)


def case_reader(client: Client, blobs: BlobStore) -> ReadCase:
    """Return the reader of cases, whose code is loaded for the first of them."""

    async def read(run: str) -> CaseReading:
        from llm_do_temporal.extensions.evaluations.cases import CaseReader

        return await CaseReader(client, blobs).read(run)

    return read


class BoundedMatchers:
    """Judge of texts and values for evaluators. Each raises EvaluatorProblem where it cannot judge."""

    def found(self, pattern: str, text: str) -> bool:
        """See Matchers."""
        try:
            return pattern_found(pattern, text)
        except (UnusableSchema, TooMuchWork) as error:
            raise EvaluatorProblem(str(error)) from error

    def schema_problems(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """See Matchers."""
        try:
            return find_problems(schema, value)
        except UnusableSchema as error:
            raise EvaluatorProblem(f"its schema cannot be used: {error}") from error


class EvaluationActivities:
    """Evaluations of one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore, read_case: ReadCase) -> None:
        self._root = workshop.resolve()
        self._blobs = blobs
        self._read_case = read_case
        self._plan = lru_cache(REMEMBERED_PLANS)(partial(self._read, EvaluationPlan))

    @activity.defn(name=PREPARE_CASE.name)
    def prepare_case(self, asked: PrepareCaseInput) -> PreparedCase:
        """Return the start of a case's run; nothing to start where its result is taken over."""
        with user_errors():
            plan, unit = self._unit(asked.plan, asked.unit)
            taken = plan.taken.get(unit.name, "")
            if taken and not (plan.retry_errors and self._read(CaseResult, taken).is_error):
                return PreparedCase(taken=taken)
            return PreparedCase(run=plan.run_of(unit), start=case_start(plan, unit), taken=taken)

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
            for evaluator in () if facts.error else plan.spec.evaluators_of(case):
                if isinstance(evaluator, Python):
                    scores = scores.plus(await in_own_thread(python_score, evaluator, case, facts, self._root))
            earlier = () if before is None else before.earlier
            if before is not None and asked.run:
                earlier = (*earlier, before.model_copy(update={"earlier": ()}))
            result = CaseResult(
                case=unit.case,
                repeat=unit.repeat,
                run=asked.run or (before.run if before else ""),
                origin=before.origin if before and not asked.run else "",
                facts=facts,
                scores=scores,
                key=case_key(plan.identity, unit.case, unit.repeat),
                earlier=earlier,
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
            runs = tuple(
                JudgeRun(run=run, seconds=one.facts.seconds, **one.facts.usage.model_dump(exclude={"tool_calls"}))
                for run, one in zip(asked.runs, readings, strict=True)
            )
            unit = EvaluationUnit(case=result.case, repeat=result.repeat)
            requests = judge_requests(plan, unit, result.facts)
            changes = {
                "scores": result.scores.plus(judged),
                "judged": judged,
                "judges": runs,
                "judgement": "" if judged.failures else judgement_key(plan.identity, result.key, list(requests)),
            }
            kept = await asyncio.to_thread(self._keep, result.model_copy(update=changes))
            known = [run.cost for run in runs if run.cost is not None]
            return ScoredCase(result=kept, cost=sum(known) if len(known) == len(runs) else None)

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
        starts, judge = list[JudgeStart](), plan.spec.judge
        if judge is not None and result.facts.error is None:
            requests = judge_requests(plan, unit, result.facts)
            judgement = judgement_key(plan.identity, result.key, list(requests))
            if taken is not None and taken.judgement == judgement:
                judged = {"judged": taken.judged, "judgement": judgement, "judges": taken.judges}
                result = result.model_copy(update={"scores": result.scores.plus(taken.judged), **judged})
            else:
                case_run, attempt = plan.run_of(unit), len(result.earlier) + 1
                for number, request in enumerate(requests):
                    run = judge_run_id(case_run, attempt=attempt, other_order=number > 0)
                    start = _start(plan, judge.worker, judge.model, input=request)
                    starts.append(JudgeStart(run=run, start=start))
        return ScoredCase(
            result=self._keep(result),
            error=result.facts.error is not None,
            cost=0.0 if taken is not None else result.facts.usage.cost,
            taken=taken is not None,
            judges=tuple(starts),
        )

    def _unit(self, digest: str, number: int) -> tuple[EvaluationPlan, EvaluationUnit]:
        plan = self._plan(digest)
        return plan, plan.units[number]

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


def _judged(judge: JudgeSpec, said: list[CaseFacts]) -> CaseScores:
    broken = next((facts.error for facts in said if facts.error is not None), None)
    if broken is not None:
        return failed(judge.worker, f"the judge ended in an error: {broken.message}")
    if len(said) == 1:
        return judge_scores(judge, said[0].output)
    return pair_scores(judge, said[0].output, said[1].output)


def case_start(plan: EvaluationPlan, unit: EvaluationUnit) -> StartRunInput:
    """Return the start of a case's run. Raises EffectFailed where the plan lacks one of its files."""
    case, settings = plan.case_of(unit), plan.spec.settings
    missing = [path for path in case.attachments if path not in plan.attachments]
    if missing:
        raise EffectFailed(f"the plan of the experiment lacks the file '{missing[0]}' of case '{case.id}'")
    return _start(
        plan,
        plan.spec.worker,
        settings.model,
        prompt=case.prompt,
        input=case.input,
        attachments=tuple(plan.attachments[path] for path in case.attachments),
        limits=settings.limits,
        script=tuple(
            ScriptedAnswer(**one.model_dump(exclude={"times"}), by="script", left=one.times) for one in case.decide
        ),
    )


def _start(plan: EvaluationPlan, worker: str, model: str | None, **given: Any) -> StartRunInput:
    """Return the start of a run that changes nothing in the workshop and asks nobody."""
    return StartRunInput(
        worker=worker,
        force_model=model,
        environment_model=plan.environment_model,
        mode=Mode.INTERACTIVE,
        started_by=plan.started_by,
        turns=plan.spec.settings.turns,
        aside=True,
        scripted=True,
        **given,
    )


def judge_requests(plan: EvaluationPlan, unit: EvaluationUnit, facts: CaseFacts) -> tuple[dict[str, Any], ...]:
    """Return the inputs of the judge: one, or two where it is shown a pair in both orders; none without a judge."""
    judge, case = plan.spec.judge, plan.case_of(unit)
    if judge is None:
        return ()
    if judge.against is None:
        return (judge_request(judge, case, facts),)
    other = case.expected if judge.against == EXPECTED else plan.others.get(unit.name)
    return pair_requests(judge, case, facts, other)


MAX_MEMO_METRICS = 40
"""Most metrics in a memo, which the server keeps with the workflow."""


def collected(
    plan: EvaluationPlan, before: ExperimentRecord | None, newer: Sequence[CaseResult], state: ExperimentState
) -> ExperimentRecord:
    """Return the record with these further results, in the order of the cases and their repeats."""
    results = [*(before.results if before else ()), *newer]
    places = {case.id: place for place, case in enumerate(plan.spec.cases)}
    results.sort(key=lambda one: (places.get(one.case, len(places)), one.repeat))
    identity, memo = plan.identity, plan.memo
    ended_at = None
    if state != "running":
        # Thresholds that are judged again change no result: the experiment ended when it did.
        ended_at = (before.ended_at if before is not None and not newer else None) or datetime.now(UTC)
    return ExperimentRecord(
        name=memo.name,
        digest=memo.digest,
        identity=identity,
        workflow=plan.workflow,
        round=plan.round,
        spec=plan.spec,
        worker_version=memo.worker_version,
        model=memo.model,
        judge_version="" if identity.judge is None else identity.judge.digest,
        started_at=plan.started_at,
        ended_at=ended_at,
        state=state,
        results=tuple(results),
    )


def memo_of(plan: EvaluationPlan, record: ExperimentRecord, digest: str) -> EvaluationMemo:
    """Return the facts about an experiment that lists show; `digest` names the record's blob, empty: there is none."""
    results = record.results
    found = [(name, one) for name, one in figures(results).items() if one.mean is not None][:MAX_MEMO_METRICS]
    changes = {
        "done": len(record.results),
        "errors": sum(one.is_error for one in results),
        "metrics": dict(found),
        "cost_usd": cost_of(record.results),
        "passed": record.gate.passed if record.state == "completed" else None,
        "record": digest,
    }
    return plan.memo.model_copy(update=changes)


def python_score(evaluator: Python, case: EvaluationCase, facts: CaseFacts, root: Path) -> CaseScores:
    """Return what the function says of a case.

    It is called with the facts as a dictionary, in which the case is as `case`, and with the evaluator's arguments.
    """
    given = {**facts.model_dump(mode="json"), "case": _case(case)}
    try:
        with importable(root):
            name = evaluator.function.rpartition(":")[2].rpartition(".")[2]
            function = load_callable(evaluator_source(evaluator.function, root=root), name)
            with contained():
                made = function(given, **evaluator.arguments)
                returned = run_in_thread(_result_of(made)) if inspect.isawaitable(made) else made
        return python_scores(evaluator, returned)
    except DefinitionError as error:
        return failed(evaluator.metric, str(error))
    except BaseException as error:
        if is_interruption(error):
            raise
        words = without_host_folders(describe_exception(error), error, root)
        return failed(evaluator.metric, f"'{evaluator.function}' failed: {words}")


def _case(case: EvaluationCase) -> dict[str, Any]:
    """Return the case as a dictionary with the keys of the evaluation file, beside our own names for them."""
    inputs = case.prompt if case.input is None else case.input
    return {**case.model_dump(mode="json"), "name": case.id, "inputs": inputs, "expected_output": case.expected}


async def _result_of(made: Awaitable[Any]) -> Any:
    return await made
