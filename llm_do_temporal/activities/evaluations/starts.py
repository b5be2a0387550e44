"""Starts of the runs of an experiment: of its cases, and of the judge."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.experiments.answers import ScriptedAnswer
from llm_do_temporal.messages.experiments.evaluations import EvaluationPlan, EvaluationUnit, JudgeStart
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.evaluations.facts import CaseFacts
from llm_do_temporal.policy.evaluations.judgement import judge_request, pair_requests
from llm_do_temporal.policy.evaluations.run_ids import case_run_id, judge_run_id
from llm_do_temporal.policy.evaluations.spec import EXPECTED, DecideEntry


def run_of_case(plan: EvaluationPlan, unit: EvaluationUnit) -> str:
    """Return the workflow id of the run of a case, which no other one has."""
    return case_run_id(plan.workflow, unit.case, unit.repeat, round_=plan.round)


def case_start(plan: EvaluationPlan, unit: EvaluationUnit) -> StartRunInput:
    """Return the start of a case's run. Raises EffectFailed where the plan lacks one of its files."""
    case, spec = plan.case_of(unit), plan.spec
    missing = [path for path in case.attachments if path not in plan.attachments]
    if missing:
        raise EffectFailed(f"the plan of the experiment lacks the file '{missing[0]}' of case '{case.id}'")
    return StartRunInput(
        worker=spec.worker,
        prompt=case.prompt,
        input=case.input,
        attachments=tuple(plan.attachments[path] for path in case.attachments),
        force_model=spec.settings.model,
        environment_model=plan.environment_model,
        mode=Mode.INTERACTIVE,
        started_by=plan.started_by,
        limits=spec.settings.limits,
        turns=spec.settings.turns,
        aside=True,
        script=tuple(map(_answer, case.decide)),
        scripted=True,
    )


def _answer(entry: DecideEntry) -> ScriptedAnswer:
    return ScriptedAnswer(
        tool=entry.tool, decision=entry.decision, args=entry.args, note=entry.note, by="script", left=entry.times
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


def judge_starts(
    plan: EvaluationPlan, unit: EvaluationUnit, requests: tuple[dict[str, Any], ...], *, attempt: int
) -> tuple[JudgeStart, ...]:
    """Return the runs of the judge for these inputs; `attempt` is the number of the case's attempt, from 1."""
    judge = plan.spec.judge
    if judge is None:
        return ()
    judged = run_of_case(plan, unit)
    return tuple(
        JudgeStart(
            run=judge_run_id(judged, attempt=attempt, other_order=number > 1),
            start=StartRunInput(
                worker=judge.worker,
                input=request,
                force_model=judge.model,
                environment_model=plan.environment_model,
                mode=Mode.INTERACTIVE,
                started_by=plan.started_by,
                turns=plan.spec.settings.turns,
                aside=True,
                scripted=True,
            ),
        )
        for number, request in enumerate(requests, 1)
    )
