"""Scores of a case: errors that are no scores, what a judge is shown, and what it and a Python function say."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations.activities import BoundedMatchers
from llm_do_temporal.extensions.evaluations.policy.scores import (
    MAX_REASON_CHARS,
    MAX_STEPS,
    CaseCall,
    CaseError,
    CaseFacts,
    CaseFile,
    CaseScores,
    CaseUsage,
    Contains,
    Equals,
    EvaluationCase,
    EvaluationSpec,
    JudgeSpec,
    Python,
    json_path_steps,
    judge_request,
    judge_scores,
    pair_requests,
    pair_scores,
    python_scores,
    quoted,
    repeated_metric,
    score_case,
    values_at,
)
from llm_do_temporal.json_schema.validation import pattern_problem

CASE = EvaluationCase(id="one", prompt="Say hello.", expected="hello", metadata={"lang": "en"})
POLITE = Python(function="own.py:polite")
FACTS = CaseFacts(
    output="hello!",
    calls=(CaseCall(tool="write_file", args={"path": "/a"}, decision="approved"),),
    files={"/a": CaseFile(sha256="0" * 64, bytes=1, text="x"), "/b": CaseFile(sha256="1" * 64, bytes=9)},
)


def told(found: CaseScores) -> dict[str, Any]:
    """Return scores by name, and failures by name as text."""
    scores = {score.name: score.value for score in found.scores}
    return scores | {failure.name: f"failure: {failure.message}" for failure in found.failures}


def test_an_error_is_an_error_and_no_wrong_answer() -> None:
    spec = EvaluationSpec(name="s", worker="w", cases=(CASE,), evaluators=(Equals(value="hello"),))
    facts = CaseFacts(error=CaseError(type="ModelError", message="no answer"))
    assert score_case(spec, CASE, facts, BoundedMatchers()) == CaseScores()
    assert facts.error is not None
    assert facts.error.words == "ModelError: no answer"


def test_evaluators_of_all_cases_and_of_the_case_count_and_functions_are_run_elsewhere() -> None:
    case = CASE.model_copy(update={"evaluators": (Contains(value="hell"), POLITE)})
    spec = EvaluationSpec(name="s", worker="w", cases=(case,), evaluators=(Equals(value="hello"),))
    assert told(score_case(spec, case, FACTS, BoundedMatchers())) == {"Equals": False, "Contains": True}
    assert spec.evaluators_of(case)[-1] == POLITE
    assert spec.case("one") == case
    assert spec.case("two") is None


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list, this deep."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_an_answer_that_cannot_be_evaluated_is_a_failure_of_its_evaluators() -> None:
    evaluators = (Equals(value=nested(10_000)), Contains(value="hell"))
    spec = EvaluationSpec(name="s", worker="w", cases=(CASE,), evaluators=evaluators)
    found = score_case(spec, CASE, CaseFacts(output=nested(10_000)), BoundedMatchers())
    assert [failure.name for failure in found.failures] == ["Equals", "Contains"]
    assert all("cannot be evaluated: RecursionError" in failure.message for failure in found.failures)


def test_two_evaluators_of_one_name_are_found() -> None:
    assert repeated_metric((Contains(value="a"), Equals(value="b"))) is None
    assert repeated_metric((Contains(value="a"), Equals(value="b"), Contains(value="c"))) == "Contains"


@pytest.mark.parametrize("half", ["\ud800", "a\udc00b", "\udfff\ud800"])
def test_half_a_character_of_a_function_is_replaced(half: str) -> None:
    found = [python_scores(POLITE, one) for one in (half, {"value": True, "reason": half}, {half: 1.0})]
    told = [one.model_dump_json() for one in found]  # JSON holds no half of a character
    assert all("\N{REPLACEMENT CHARACTER}" in text for text in told)


def test_a_function_that_was_not_run_is_a_failure() -> None:
    with pytest.raises(Exception, match="run by an activity"):
        POLITE.evaluate(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("returned", "wanted"),
    [
        (True, {"polite": True}),
        (3, {"polite": 3.0}),
        ("good", {"polite": "good"}),
        (None, {}),
        ({}, {}),
        ({"value": 0.5, "reason": "so"}, {"polite": 0.5}),
        ({"tone": 1, "long": False}, {"polite.tone": 1.0, "polite.long": False}),
        ([1], {"polite": "failure: a score is true, false, a number or a label, not '[1]'"}),
        (float("nan"), {"polite": "failure: a score is true, false, a number or a label, not 'NaN'"}),
    ],
)
def test_what_a_function_returns(returned: Any, wanted: dict[str, Any]) -> None:
    assert told(python_scores(POLITE, returned)) == wanted


def test_a_judge_is_shown_what_it_is_to_see() -> None:
    assert judge_request(JudgeSpec(worker="j"), CASE, FACTS) == {
        "prompt": "Say hello.",
        "expected": "hello",
        "output": "hello!",
    }
    assert judge_request(JudgeSpec(worker="j", shows=("metadata", "files", "calls")), CASE, FACTS) == {
        "metadata": {"lang": "en"},
        "files": {"/a": "x", "/b": {"sha256": "1" * 64, "bytes": 9}},
        "calls": [{"tool": "write_file", "args": {"path": "/a"}, "outcome": "done", "decision": "approved"}],
    }


def test_a_pair_is_shown_in_both_orders() -> None:
    first, second = pair_requests(JudgeSpec(worker="j", against="expected"), CASE, FACTS, "hello")
    assert first == {"prompt": "Say hello.", "answer_1": "hello!", "answer_2": "hello"}
    assert second == {"prompt": "Say hello.", "answer_1": "hello", "answer_2": "hello!"}


@pytest.mark.parametrize(
    ("output", "scores", "wanted"),
    [
        ({"score": 4, "pass": True, "reason": "fine"}, None, {"j.score": 4.0, "j.pass": True}),
        ({"score": 4, "verdict": "good"}, ("verdict",), {"j.verdict": "good"}),
        ({"reason": "fine"}, None, {"j": 'failure: the judge\'s output has no score: \'{"reason": "fine"}\''}),
        ({}, ("score",), {"j.score": "failure: the judge's output has no 'score': '{}'"}),
        ({"score": None}, ("score",), {"j.score": "failure: a score is true, false, a number or a label, not 'null'"}),
        ("good", None, {"j": "failure: the judge's output has no fields: 'good'; give it an `output_schema`"}),
    ],
)
def test_what_a_judge_says(output: Any, scores: tuple[str, ...] | None, wanted: dict[str, Any]) -> None:
    assert told(judge_scores(JudgeSpec(worker="j", scores=scores), output)) == wanted


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("answer_1", "answer_2", 1.0),
        ("answer_2", "answer_1", 0.0),
        # A judge that prefers whatever stands first, or last, prefers nothing.
        ("answer_1", "answer_1", 0.5),
        ("answer_2", "answer_2", 0.5),
        ("tie", "answer_2", 0.5),
    ],
)
def test_a_preference_counts_only_in_both_orders(first: str, second: str, wanted: float) -> None:
    found = pair_scores(JudgeSpec(worker="j"), {"better": first}, {"better": second})
    assert told(found) == {"j.better": wanted}


def test_a_pair_without_a_preference_is_a_failure() -> None:
    for first, second in (("x", {"better": "answer_1"}), ({"better": "answer_1"}, {"worse": 1})):
        (failure,) = pair_scores(JudgeSpec(worker="j"), first, second).failures
        assert failure.name == "j.better"


def test_reasons_and_labels_are_bounded() -> None:
    (score,) = python_scores(POLITE, {"value": "x" * 900, "reason": "y" * 900}).scores
    assert len(score.reason) == MAX_REASON_CHARS
    assert len(str(score.value)) == 100
    assert quoted("a" * 150) == f"'{'a' * 50} … {'a' * 50}'"


def test_paths() -> None:
    assert json_path_steps("$") == ()
    assert json_path_steps("$.a[0]['b c'][\"d\"].*[*][-1]") == ("a", 0, "b c", "d", None, None, -1)
    for wrong in ("a", "$a", "$..a", "$[?@.a]", "$.a[", "$" + ".a" * (MAX_STEPS + 1)):
        assert json_path_steps(wrong) is None
    assert values_at({"a": [1, 2]}, ("a", None)) == [1, 2]
    assert values_at({"a": [1, 2]}, ("a", 2)) == []
    assert values_at({"a": [1, 2]}, ("a", "b")) == []
    assert values_at({"a": {"b": 1}}, (None, "b")) == [1]
    assert values_at({"a": 1}, (0,)) == []
    assert values_at("a", (None,)) == []


def test_patterns_are_known_to_be_usable_before_they_are_used() -> None:
    assert pattern_problem("^a+$") is None
    assert "cannot be used" in (pattern_problem("(?<=a)b") or "")
    with pytest.raises(Exception, match="cannot be used"):
        BoundedMatchers().found("(?<=a)b", "ab")


def test_tokens_are_those_of_both_directions() -> None:
    assert CaseUsage(input_tokens=2, output_tokens=3).tokens == 5


@pytest.mark.parametrize(
    "returned", [10**400, -(10**400), 10**5000, {"value": 10**400}], ids=["large", "low", "long", "named"]
)
def test_a_number_beyond_all_floats_is_a_failure_of_its_evaluator(returned: Any) -> None:
    (failure,) = python_scores(POLITE, returned).failures
    assert "is larger" in failure.message
