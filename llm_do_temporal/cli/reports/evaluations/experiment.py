"""Experiment on the terminal: its figures, whether its thresholds hold, and the cases that people want to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_do_temporal.cli.output import truncated_json
from llm_do_temporal.cli.reports.evaluations.figures import NONE, mean_text
from llm_do_temporal.cli.tables import format_table
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.messages.experiments.results import CaseResult, ExperimentRecord
from llm_do_temporal.policy.evaluations.outcomes import figures

MAX_LISTED = 20
"""Most cases that are listed; `--json` has all of them."""


def experiment_lines(record: ExperimentRecord, width: int | None) -> list[str]:
    """Return the lines about an experiment."""
    lines = [visible_line(_head(record)), ""]
    lines += format_table(("METRIC", "MEAN", "95 %", "CASES", "MISSING"), list(_metrics(record)), width)
    lines += ["", *_amounts(record)]
    shown = list(_troubles(record))
    lines += ["", *shown[:MAX_LISTED]] if shown else []
    if len(shown) > MAX_LISTED:
        lines.append(f"… and {len(shown) - MAX_LISTED} more; --json has all of them")
    lines += ["", *_gate(record)]
    return lines


def experiment_json(record: ExperimentRecord) -> dict[str, Any]:
    """Return the object of `--json`."""
    gate = record.gate
    return {
        "experiment": record.workflow,
        "digest": record.digest,
        "evaluation": record.name,
        "worker": record.spec.worker,
        "model": record.model,
        "state": record.state,
        "passed": gate.passed,
        "thresholds": [verdict.model_dump(mode="json") for verdict in gate.verdicts],
        "metrics": {name: one.model_dump(mode="json") for name, one in figures(record.outcomes).items()},
        "planned": record.planned,
        "cost_usd": _cost(record),
        "results": [_result(result) for result in record.results],
    }


def _result(result: CaseResult) -> dict[str, Any]:
    facts = result.facts
    return {
        "case": result.case,
        "repeat": result.repeat,
        "run": result.run,
        "origin": result.origin,
        "output": facts.output,
        **truncated_json(facts.truncated),
        "error": None if facts.error is None else facts.error.model_dump(mode="json"),
        "scores": {one.name: one.value for one in result.scores.scores},
        "reasons": {one.name: one.reason for one in result.scores.scores if one.reason},
        "failures": {one.name: one.message for one in result.scores.failures},
        "usage": facts.usage.model_dump(mode="json"),
        "seconds": facts.seconds,
        "earlier": [_result(one) for one in result.earlier],
    }


def _head(record: ExperimentRecord) -> str:
    spec = record.spec
    repeats = f", {spec.repeats} times each" if spec.repeats > 1 else ""
    model = f", {record.model}" if record.model else ""
    return f"{record.workflow}: {spec.worker}{model}, {len(spec.cases)} cases{repeats}, {record.state}"


def _metrics(record: ExperimentRecord) -> Iterator[tuple[str, ...]]:
    for name, one in figures(record.outcomes).items():
        if one.mean is None:
            shown = ", ".join(f"{label} {count}" for label, count in one.labels.items())
            yield name, shown, NONE, str(one.cases), str(one.missing)
            continue
        between = f"{mean_text(one.low, one.kind)} to {mean_text(one.high, one.kind)}"
        yield (
            name,
            mean_text(one.mean, one.kind),
            NONE if one.low is None else between,
            str(one.cases),
            str(one.missing),
        )


def _amounts(record: ExperimentRecord) -> Iterator[str]:
    taken = sum(bool(result.origin) for result in record.results)
    cost = _cost(record)
    money = "no price is known" if cost is None else f"${cost:.4f}"
    yield f"{len(record.results)} of {record.planned} runs, {taken} taken over from earlier experiments; {money}"


def _cost(record: ExperimentRecord) -> float | None:
    """Return the dollars of runs and judges of this experiment whose prices are known; None: of none."""
    own = [result for result in record.results if not result.origin]
    amounts = [amount for one in own for amount in (one.facts.usage.cost, *(run.cost for run in one.judges))]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _troubles(record: ExperimentRecord) -> Iterator[str]:
    for result in record.results:
        name = f"{result.case} ({result.repeat})" if record.spec.repeats > 1 else result.case
        if result.facts.error is not None:
            yield visible_line(f"error    {name}: {result.facts.error.message}", 200)
        for failure in result.scores.failures:
            yield visible_line(f"no score {name}: {failure.name}: {failure.message}", 200)
        for score in result.scores.scores:
            if score.value is False:
                yield visible_line(f"failed   {name}: {score.name}: {score.reason}", 200)


def _gate(record: ExperimentRecord) -> Iterator[str]:
    gate = record.gate
    for verdict in gate.verdicts:
        yield visible_line(f"{'kept  ' if verdict.passed else 'broken'}  {verdict.sentence}", 200)
    yield "passed" if gate.passed else "failed"
