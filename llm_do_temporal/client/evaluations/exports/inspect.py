"""Experiment as the JSON of a log of Inspect AI, which its `read_eval_log` and `inspect view` read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from llm_do_temporal.messages.experiments.results import CaseResult, ExperimentRecord
from llm_do_temporal.policy.evaluations.facts import CaseUsage
from llm_do_temporal.policy.evaluations.spec import EvaluationCase

LOG_VERSION = 2
_STATES = {"running": "started", "completed": "success", "cancelled": "cancelled", "failed": "error"}


def inspect_log(record: ExperimentRecord) -> dict[str, Any]:
    """Return the log: a sample for each case, an epoch for each repeat; a case that ended in an error has no score."""
    began = _moment(record.started_at)
    ended = "" if record.ended_at is None else _moment(record.ended_at)
    samples = [
        _sample(record, case, result)
        for result in record.results
        if (case := record.spec.case(result.case)) is not None
    ]
    log: dict[str, Any] = {
        "version": LOG_VERSION,
        "status": _STATES[record.state],
        "eval": _spec(record, began),
        "plan": {"name": "plan", "steps": [{"solver": record.spec.worker, "params": {}}]},
        "results": _results(record),
        "stats": {"started_at": began, "completed_at": ended, "model_usage": _usages(record, record.results)},
    }
    if record.state == "failed":
        log["error"] = _error("the evaluation failed")
    return {**log, "samples": samples}


def _spec(record: ExperimentRecord, began: str) -> dict[str, Any]:
    ids = [case.id for case in record.spec.cases]
    return {
        "eval_id": _id(record),
        "run_id": record.workflow,
        "created": began,
        "task": record.name,
        "task_id": _id(record),
        "task_version": record.worker_version or 0,
        "dataset": {"name": record.name, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": _model(record),
        "config": {"epochs": record.spec.repeats, "epochs_reducer": ["mean"]},
        "scorers": [{"name": name} for name in _metrics(record)],
        "metadata": {"worker": record.spec.worker, "digest": record.digest},
    }


def _id(record: ExperimentRecord) -> str:
    return record.digest.rpartition("-")[2][:22]


def _model(record: ExperimentRecord) -> str:
    """Return the model, as provider/name."""
    return record.model.replace(":", "/", 1) or "none/none"


def _metrics(record: ExperimentRecord) -> list[str]:
    return list(dict.fromkeys(score.name for result in record.results for score in result.scores.scores))


def _results(record: ExperimentRecord) -> dict[str, Any]:
    scores: list[dict[str, Any]] = []
    for name in _metrics(record):
        by_case: dict[str, list[float]] = {}
        for result in record.results:
            value = result.score(name)
            if value is not None and not isinstance(value, str):
                by_case.setdefault(result.case, []).append(float(value))
        means = [sum(values) / len(values) for values in by_case.values()]
        metrics: dict[str, Any] = (
            {"mean": {"name": "mean", "value": sum(means) / len(means), "params": {}}} if means else {}
        )
        unscored = len(record.spec.cases) - len(means)
        scores.append(
            {"name": name, "scorer": name, "reducer": "mean", "metrics": metrics}
            | {"scored_samples": len(means), "unscored_samples": unscored}
        )
    completed = sum(result.facts.error is None for result in record.results)
    total = len(record.spec.cases) * record.spec.repeats
    return {"total_samples": total, "completed_samples": completed, "scores": scores}


def _sample(record: ExperimentRecord, case: EvaluationCase, result: CaseResult) -> dict[str, Any]:
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
        "uuid": f"{_id(record)}-{case.id}-{result.repeat}",
    }
    if facts.seconds is not None:
        sample |= {"total_time": facts.seconds, "working_time": facts.seconds}
    if facts.error is not None:
        return sample | {"error": _error(f"{facts.error.type}: {facts.error.message}")}
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
    spent = CaseUsage()
    cost: float | None = None
    for result in results:
        usage = result.facts.usage
        cost = cost if usage.cost is None else (cost or 0) + usage.cost
        spent = CaseUsage(
            input_tokens=spent.input_tokens + usage.input_tokens,
            output_tokens=spent.output_tokens + usage.output_tokens,
        )
    return {
        _model(record): {
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "total_tokens": spent.tokens,
            **({} if cost is None else {"total_cost": cost}),
        }
    }


def _error(message: str) -> dict[str, str]:
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def _text(value: Any) -> str:
    """Return a text as it is, nothing as an empty text, and any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
