"""Experiment as the JSON of a report of `pydantic-evals`, which its `EvaluationReportAdapter` reads and prints."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.messages.experiments.results import CaseResult, ExperimentRecord
from llm_do_temporal.policy.evaluations.scores import CaseScore
from llm_do_temporal.policy.evaluations.spec import EvaluationCase

_KINDS = {bool: "assertions", float: "scores", str: "labels"}


def pydantic_evals_report(record: ExperimentRecord) -> dict[str, Any]:
    """Return the report: cases with an answer, and failures, which are the cases that ended in an error.

    A cost or a time that is not known is left out, and is not zero, except where the format wants a number for each
    case (`task_duration`, `total_duration`).
    """
    cases, failures = list[dict[str, Any]](), list[dict[str, Any]]()
    for result in record.results:
        case = record.spec.case(result.case)
        if case is None:
            continue
        common = _common(record, case, result)
        if result.facts.error is None:
            cases.append({**common, **_answer(result)})
        else:
            error = result.facts.error
            failures.append({**common, "error_message": f"{error.type}: {error.message}", "error_stacktrace": ""})
    return {
        "name": record.workflow,
        "dataset_name": record.name,
        "cases": cases,
        "failures": failures,
        "analyses": [],
        "report_evaluator_failures": [],
        "experiment_metadata": {
            "digest": record.digest,
            "worker": record.spec.worker,
            "worker_version": record.worker_version,
            "model": record.model,
            "judge": "" if record.spec.judge is None else record.spec.judge.worker,
            "repeats": record.spec.repeats,
        },
    }


def _common(record: ExperimentRecord, case: EvaluationCase, result: CaseResult) -> dict[str, Any]:
    is_repeated = record.spec.repeats > 1
    return {
        "name": f"{case.id} [{result.repeat}/{record.spec.repeats}]" if is_repeated else case.id,
        "inputs": inputs_of(case),
        "metadata": case.metadata or None,
        "expected_output": case.expected,
        "source_case_name": case.id if is_repeated else None,
    }


def inputs_of(case: EvaluationCase) -> dict[str, Any]:
    """Return what the worker was given, without what is empty."""
    given = {"prompt": case.prompt, "input": case.input, "attachments": list(case.attachments)}
    return {name: value for name, value in given.items() if value not in ("", None, [])}


def _answer(result: CaseResult) -> dict[str, Any]:
    facts = result.facts
    usage = facts.usage
    judging = sum(judge.seconds or 0 for judge in result.judges)
    scores: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS.values()}
    for score in result.scores.scores:
        scores[_KINDS[type(score.value)]][score.name] = _score(score)
    metrics = {
        "turns": usage.turns,
        "tool_calls": usage.tool_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
    }
    return {
        "output": facts.output,
        **scores,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "attributes": {"run": result.run},
        "task_duration": facts.seconds or 0.0,
        "total_duration": (facts.seconds or 0.0) + judging,
        "evaluator_failures": [
            {"name": one.name, "error_message": one.message, "error_stacktrace": "", "source": _source(one.name)}
            for one in result.scores.failures
        ],
    }


def _score(score: CaseScore) -> dict[str, Any]:
    return {
        "name": score.name,
        "value": score.value,
        "reason": score.reason or None,
        "source": _source(score.name),
    }


def _source(name: str) -> dict[str, Any]:
    """Return the evaluator of a score, by the name of its metric."""
    return {"name": name, "arguments": None}
