"""Scores of one case: what its evaluators say, what a judge is shown, and what its answer comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from llm_do_temporal.extensions.evaluations.policy.evaluators import BaseEvaluator, Matchers, Python, Seen, quoted
from llm_do_temporal.extensions.evaluations.policy.facts import (
    CaseFacts,
    CaseScores,
    EvaluatorProblem,
    failed,
    scored,
    shortened,
)
from llm_do_temporal.extensions.evaluations.policy.spec import EvaluationCase, EvaluationSpec, JudgeSpec

REASON = "reason"
"""Field of an answer of a judge, or of a Python function, that explains its scores."""
PREFERENCE = "better"
"""Field in which a judge of a pair says which answer is better."""
ANSWERS = ("answer_1", "answer_2")
"""Names of the answers of a pair, as the judge is shown them and as it answers; anything else is a tie."""


def score_case(spec: EvaluationSpec, case: EvaluationCase, facts: CaseFacts, matchers: Matchers) -> CaseScores:
    """Return what all evaluators of a case say, but for Python functions and the judge.

    A case that ended in an error has no scores: it is no wrong answer.
    """
    if facts.error is not None:
        return CaseScores()
    seen = Seen(expected=case.expected, facts=facts, matchers=matchers)
    found = CaseScores()
    for evaluator in spec.evaluators_of(case):
        if not isinstance(evaluator, Python):
            found = found.plus(_scored(evaluator, seen))
    return found


def python_evaluators(spec: EvaluationSpec, case: EvaluationCase) -> tuple[Python, ...]:
    """Return the evaluators of a case that are Python functions."""
    return tuple(one for one in spec.evaluators_of(case) if isinstance(one, Python))


def _scored(evaluator: BaseEvaluator, seen: Seen) -> CaseScores:
    try:
        finding = evaluator.evaluate(seen)
    except EvaluatorProblem as problem:
        return failed(evaluator.metric, str(problem))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # The same answer would fail in the same way: it is no reason to try the case again.
        return failed(evaluator.metric, f"the answer cannot be evaluated: {type(error).__name__}: {error}")
    return CaseScores() if finding is None else scored(evaluator.metric, *finding)


def python_scores(evaluator: Python, returned: Any) -> CaseScores:
    """Return the scores that a Python function returned: one value, or values by name; None and {} are no score."""
    if returned is None:
        return CaseScores()
    if not isinstance(returned, Mapping):
        return _score(evaluator.metric, returned, "")
    values = dict(cast("Mapping[str, Any]", returned))
    reason = values.pop(REASON, "")
    found = CaseScores()
    for name, value in values.items():
        metric = evaluator.metric if name == "value" else f"{evaluator.metric}.{shortened(str(name), 100)}"
        found = found.plus(_score(metric, value, str(reason)))
    return found


def _score(name: str, value: Any, reason: str) -> CaseScores:
    if isinstance(value, bool):
        return scored(name, value, reason)
    if isinstance(value, str):
        return scored(name, shortened(value, 100), reason)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return failed(name, "a score is a number of at most about 1.8e308, and this one is larger")
        if abs(number) < float("inf"):
            return scored(name, number, reason)
    return failed(name, f"a score is true, false, a number or a label, not {quoted(value)}")


def judge_request(judge: JudgeSpec, case: EvaluationCase, facts: CaseFacts) -> dict[str, Any]:
    """Return the input of the judge for an answer by itself; parts of the case without content are left out."""
    shown = _task(case, judge.shows)
    if "output" in judge.shows:
        shown["output"] = facts.output
    if "files" in judge.shows:
        shown["files"] = {
            path: file.text if file.text is not None else {"sha256": file.sha256, "bytes": file.bytes}
            for path, file in facts.files.items()
        }
    if "calls" in judge.shows:
        shown["calls"] = [
            {"tool": call.tool, "args": call.args, "outcome": call.outcome, "decision": call.decision}
            for call in facts.calls
        ]
    return shown


def pair_requests(
    judge: JudgeSpec, case: EvaluationCase, facts: CaseFacts, other: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of the judge for the answer beside another one, in both orders."""
    shown = _task(case, [part for part in judge.shows if part != "expected"])
    first, second = ANSWERS
    return (
        {**shown, first: facts.output, second: other},
        {**shown, first: other, second: facts.output},
    )


def _task(case: EvaluationCase, shown: Iterable[str]) -> dict[str, Any]:
    parts = {"prompt": case.prompt, "input": case.input, "expected": case.expected, "metadata": case.metadata}
    return {name: part for name, part in parts.items() if name in shown and part not in (None, "", {})}


def judge_scores(judge: JudgeSpec, output: Any) -> CaseScores:
    """Return the scores in the output of a judge."""
    if not isinstance(output, Mapping):
        return failed(judge.worker, f"the judge's output has no fields: {quoted(output)}; give it an `output_schema`")
    fields = cast("Mapping[str, Any]", output)
    wanted = judge.scores
    if wanted is None:
        wanted = tuple(name for name, value in fields.items() if isinstance(value, bool | int | float))
    if not wanted:
        return failed(judge.worker, f"the judge's output has no score: {quoted(output)}")
    reason = fields.get(REASON, "")
    found = CaseScores()
    for name in wanted:
        metric = judge.metric(name)
        found = found.plus(
            _score(metric, fields[name], str(reason))
            if name in fields
            else failed(metric, f"the judge's output has no '{name}': {quoted(output)}")
        )
    return found


def pair_scores(judge: JudgeSpec, first: Any, second: Any) -> CaseScores:
    """Return the score of an answer beside another one, of what the judge said in both orders.

    1 where it is the better one both times, 0 where the other one is, else 0.5: whom the judge prefers in one order
    alone, it prefers for its place.
    """
    said = [_preference(output) for output in (first, second)]
    metric = judge.metric(PREFERENCE)
    if None in said:
        return failed(metric, f"the judge's output has no '{PREFERENCE}': {quoted(first)}, {quoted(second)}")
    value = 1.0 if said == [*ANSWERS] else 0.0 if said == [*reversed(ANSWERS)] else 0.5
    return scored(metric, value, f"shown first: {said[0]}; shown second: {said[1]}")


def _preference(output: Any) -> str | None:
    if not isinstance(output, Mapping):
        return None
    value = cast("Mapping[str, Any]", output).get(PREFERENCE)
    return None if value is None else str(value)
