"""Experiment as CSV: one row for each repeat of a case, in the order of the record. Pure."""

from __future__ import annotations

from llm_do_temporal.client.record.tables import ResultRow, csv_text
from llm_do_temporal.messages.experiments.results import CaseResult, ExperimentRecord
from llm_do_temporal.policy.evaluations.spec import EvaluationCase


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
        "error": "" if facts.error is None else f"{facts.error.type}: {facts.error.message}",
        "evaluator_failures": "\n".join(f"{one.name}: {one.message}" for one in result.scores.failures),
        "truncated": facts.truncated,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost,
        "seconds": facts.seconds,
        "run": result.run,
    }
    return ResultRow(lead, facts.output, {one.name: one.value for one in result.scores.scores}, tail)
