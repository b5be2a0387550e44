"""Experiments in the formats of other programs: a log of Inspect AI, a report of pydantic-evals, CSV. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from llm_do_temporal.client.record.results import ResultRow, csv_text
from llm_do_temporal.messages.experiments.evaluations import CaseResult, ExperimentRecord
from llm_do_temporal.policy.evaluations.figures import figures, known_sum, scores_by_metric
from llm_do_temporal.policy.evaluations.json_values import json_text
from llm_do_temporal.policy.evaluations.spec import EvaluationCase

LOG_VERSION = 2
_STATES = {"running": "started", "completed": "success", "cancelled": "cancelled", "failed": "error"}


def inspect_log(record: ExperimentRecord) -> dict[str, Any]:
    """Return the log: a sample for each case, an epoch for each repeat; a case that ended in an error has no score."""
    began = _moment(record.started_at)
    ended = "" if record.ended_at is None else _moment(record.ended_at)
    samples = [
        _inspect_sample(record, case, result)
        for result in record.results
        if (case := record.spec.case(result.case)) is not None
    ]
    log: dict[str, Any] = {
        "version": LOG_VERSION,
        "status": _STATES[record.state],
        "eval": _inspect_spec(record, began),
        "plan": {"name": "plan", "steps": [{"solver": record.spec.worker, "params": {}}]},
        "results": _inspect_results(record),
        "stats": {"started_at": began, "completed_at": ended, "model_usage": _usages(record, record.results)},
    }
    if record.state == "failed":
        log["error"] = _inspect_error("the evaluation failed")
    return {**log, "samples": samples}


def _inspect_spec(record: ExperimentRecord, began: str) -> dict[str, Any]:
    ids = [case.id for case in record.spec.cases]
    return {
        "eval_id": _digits(record),
        "run_id": record.workflow,
        "created": began,
        "task": record.name,
        "task_id": _digits(record),
        "task_version": record.worker_version or 0,
        "dataset": {"name": record.name, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": _model(record),
        "config": {"epochs": record.spec.repeats, "epochs_reducer": ["mean"]},
        "scorers": [{"name": name} for name in scores_by_metric(record.outcomes)],
        "metadata": {"worker": record.spec.worker, "digest": record.digest},
    }


def _digits(record: ExperimentRecord) -> str:
    return record.digest.rpartition("-")[2][:22]


def _model(record: ExperimentRecord) -> str:
    """Return the model, as provider/name."""
    return record.model.replace(":", "/", 1) or "none/none"


def _inspect_results(record: ExperimentRecord) -> dict[str, Any]:
    scores: list[dict[str, Any]] = []
    for name, found in figures(record.outcomes).items():
        is_mean = found.mean is not None
        scored = found.cases if is_mean else 0
        scores.append(
            {
                "name": name,
                "scorer": name,
                "reducer": "mean",
                "metrics": {"mean": {"name": "mean", "value": found.mean, "params": {}}} if is_mean else {},
                "scored_samples": scored,
                "unscored_samples": len(record.spec.cases) - scored,
            }
        )
    completed = sum(result.facts.error is None for result in record.results)
    return {"total_samples": record.planned, "completed_samples": completed, "scores": scores}


def _inspect_sample(record: ExperimentRecord, case: EvaluationCase, result: CaseResult) -> dict[str, Any]:
    facts = result.facts
    answer = _text(facts.output)
    sample: dict[str, Any] = {
        "id": case.id,
        "epoch": result.repeat,
        "input": case.prompt or _text(case.input),
        "target": _text(case.expected),
        "metadata": {**case.metadata, "run": result.run, "input": case.input, "attachments": list(case.attachments)},
        "messages": [{"role": "user", "content": case.prompt or _text(case.input)}],
        "output": {"model": _model(record), "choices": [], "completion": ""},
        "model_usage": _usages(record, [result]),
        "uuid": f"{_digits(record)}-{case.id}-{result.repeat}",
    }
    if facts.seconds is not None:
        sample |= {"total_time": facts.seconds, "working_time": facts.seconds}
    if facts.error is not None:
        return sample | {"error": _inspect_error(facts.error.words)}
    message = {"role": "assistant", "content": answer, "source": "generate"}
    choice = {"message": message, "stop_reason": "stop"}
    return sample | {
        "messages": [*sample["messages"], message],
        "output": {"model": _model(record), "choices": [choice], "completion": answer},
        "scores": {
            one.name: {"value": one.value, "answer": answer, "explanation": one.reason or None}
            for one in result.scores.scores
        },
    }


def _usages(record: ExperimentRecord, results: Iterable[CaseResult]) -> dict[str, Any]:
    """Return the tokens of the worker's runs; those of judges are not among them."""
    usages = [result.facts.usage for result in results]
    cost = known_sum(one.cost for one in usages)
    return {
        _model(record): {
            "input_tokens": sum(one.input_tokens for one in usages),
            "output_tokens": sum(one.output_tokens for one in usages),
            "total_tokens": sum(one.tokens for one in usages),
            **({} if cost is None else {"total_cost": cost}),
        }
    }


def _inspect_error(message: str) -> dict[str, str]:
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def _text(value: Any) -> str:
    """Return a text as it is, nothing as an empty text, and any other value as JSON."""
    return "" if value is None else json_text(value)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


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
        common = _common_keys(record, case, result)
        if result.facts.error is None:
            cases.append({**common, **_report_case(result)})
        else:
            failures.append({**common, "error_message": result.facts.error.words, "error_stacktrace": ""})
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


def _common_keys(record: ExperimentRecord, case: EvaluationCase, result: CaseResult) -> dict[str, Any]:
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


def _report_case(result: CaseResult) -> dict[str, Any]:
    facts = result.facts
    usage = facts.usage
    judging = sum(judge.seconds or 0 for judge in result.judges)
    scores: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS.values()}
    for score in result.scores.scores:
        scores[_KINDS[type(score.value)]][score.name] = {
            "name": score.name,
            "value": score.value,
            "reason": score.reason or None,
            "source": _source(score.name),
        }
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


def _source(name: str) -> dict[str, Any]:
    """Return the evaluator of a score, by the name of its metric."""
    return {"name": name, "arguments": None}


def experiment_csv(record: ExperimentRecord) -> str:
    """Return the document."""
    cases = {case.id: case for case in record.spec.cases}
    return csv_text([_row(result, cases.get(result.case)) for result in record.results])


def _row(result: CaseResult, case: EvaluationCase | None) -> ResultRow:
    facts, usage = result.facts, result.facts.usage
    given = case or EvaluationCase(id=result.case)
    lead = {
        "case": result.case,
        "repeat": result.repeat,
        "file": "\n".join(given.attachments),
        "given": given.prompt or given.input,
        "expected": given.expected,
        "status": "completed" if facts.error is None else "failed",
    }
    tail = {
        "error": "" if facts.error is None else facts.error.words,
        "evaluator_failures": "\n".join(f"{one.name}: {one.message}" for one in result.scores.failures),
        "truncated": facts.truncated,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost,
        "seconds": facts.seconds,
        "run": result.run,
    }
    return ResultRow(lead, facts.output, {one.name: one.value for one in result.scores.scores}, tail)
