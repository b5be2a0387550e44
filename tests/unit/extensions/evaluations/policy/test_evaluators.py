"""Evaluators, each in a table of what passes, what fails and what cannot be judged; judges and Python functions."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations.activities import BoundedMatchers
from llm_do_temporal.extensions.evaluations.policy.scores import (
    EVALUATORS,
    MAX_REASON_CHARS,
    MAX_STEPS,
    BaseEvaluator,
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
    Seen,
    common_in_order,
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

DIGEST = hashlib.sha256(b"bread\n").hexdigest()
STRUCTURED = {"verdict": "invest", "score": 4, "items": [{"n": 1, "ok": True}, {"n": 2.5, "ok": True}], "none": None}
WORK = CaseFacts(
    output="done",
    usage=CaseUsage(turns=3, input_tokens=5, output_tokens=2, cost=0.02),
    seconds=4.0,
    calls=(CaseCall(tool="a"), CaseCall(tool="b", outcome="failed"), CaseCall(tool="c", outcome="refused")),
    files={
        "/notes.md": CaseFile(sha256=DIGEST, bytes=6, text="bread\n"),
        "/gone.md": CaseFile(sha256=None),
        "/photo.png": CaseFile(sha256="0" * 64, bytes=9_000_000),
    },
)


def judged(kind: str, keys: dict[str, Any], facts: CaseFacts, expected: Any = None) -> Any:
    """Return the value of an evaluator's score, its failure as text, or None where it says nothing."""
    evaluator = EVALUATORS[kind].model_validate(keys)
    spec = EvaluationSpec.model_validate({"name": "s", "worker": "w", "cases": [], "evaluators": [evaluator]})
    found = score_case(spec, EvaluationCase(id="one", expected=expected), facts, BoundedMatchers())
    if found.failures:
        return f"failure: {found.failures[0].message}"
    return found.scores[0].value if found.scores else None


ANSWERS: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("Equals", {"value": "x"}, "x", True),
    ("Equals", {"value": "x"}, "xx", False),
    # Numbers are equal by value, and true is no number.
    ("Equals", {"value": 1}, 1.0, True),
    ("Equals", {"value": 1}, True, False),
    ("Equals", {"value": {"a": [1, {"b": None}]}}, {"a": [1, {"b": None}]}, True),
    ("Equals", {"value": {"a": [1]}}, {"a": [1], "b": 2}, False),
    ("Equals", {"value": [1, 2]}, [2, 1], False),
    ("Equals", {"value": [1]}, [1, 1], False),
    ("Contains", {"value": "ell"}, "Hello", True),
    ("Contains", {"value": "ELL"}, "Hello", False),
    ("Contains", {"value": "ELL", "case_sensitive": False}, "Hello", True),
    ("Contains", {"value": "invest"}, STRUCTURED, False),
    ("Contains", {"value": '"invest"', "as_strings": True}, STRUCTURED, True),
    ("Contains", {"value": "verdict"}, STRUCTURED, True),
    ("Contains", {"value": {"verdict": "invest"}}, STRUCTURED, True),
    ("Contains", {"value": {"verdict": "invest", "score": 5}}, STRUCTURED, False),
    ("Contains", {"value": {"other": None}}, STRUCTURED, False),
    ("Contains", {"value": 3}, STRUCTURED, False),
    ("Contains", {"value": 2}, [1, 2], True),
    ("Contains", {"value": 3}, [1, 2], False),
    ("Contains", {"value": 2}, 2, False),
    ("IsInstance", {"type_name": "str"}, "x", True),
    ("IsInstance", {"type_name": "dict"}, "x", False),
    ("IsInstance", {"type_name": "int"}, True, True),
    ("Matches", {"pattern": "^[a-z]+$"}, "hello", True),
    ("Matches", {"pattern": "^[a-z]+$"}, "Hello", False),
    ("Matches", {"pattern": "^in", "path": "$.verdict"}, STRUCTURED, True),
    ("Matches", {"pattern": "4", "path": "$.score"}, STRUCTURED, True),
    ("Matches", {"pattern": "x", "path": "$.nothing"}, STRUCTURED, False),
    # Would take years in an engine that tries without end.
    ("Matches", {"pattern": "^(a+)+$"}, "a" * 5_000 + "!", False),
    ("JsonPath", {"path": "$.verdict", "equals": "invest"}, STRUCTURED, True),
    ("JsonPath", {"path": "$.verdict", "equals": "pass"}, STRUCTURED, False),
    ("JsonPath", {"path": "$.verdict", "one_of": ["pass", "invest"]}, STRUCTURED, True),
    ("JsonPath", {"path": "$.verdict", "one_of": ["pass"]}, STRUCTURED, False),
    ("JsonPath", {"path": "$.items[*].n", "at_least": 1, "at_most": 2.5}, STRUCTURED, True),
    ("JsonPath", {"path": "$.items[*].n", "at_least": 2}, STRUCTURED, False),
    ("JsonPath", {"path": "$.items[-1].n", "at_most": 2}, STRUCTURED, False),
    # True and texts are no numbers.
    ("JsonPath", {"path": "$.items[0].ok", "at_least": 0}, STRUCTURED, False),
    ("JsonPath", {"path": "$.verdict", "at_least": 0}, STRUCTURED, False),
    ("JsonPath", {"path": "$.other", "equals": 1}, STRUCTURED, False),
    ("JsonPath", {"path": "$.none", "exists": True}, STRUCTURED, True),
    ("JsonPath", {"path": "$.other", "exists": True}, STRUCTURED, False),
    ("JsonPath", {"path": "$.other", "exists": False}, STRUCTURED, True),
    ("JsonPath", {"path": "$.none", "exists": False}, STRUCTURED, False),
    ("JsonPath", {"path": "$.score", "exists": True, "equals": 4}, STRUCTURED, True),
    # Without a comparison, what is there is the score.
    ("JsonPath", {"path": "$.score"}, STRUCTURED, 4.0),
    ("JsonPath", {"path": "$.verdict"}, STRUCTURED, "invest"),
    ("JsonPath", {"path": "$.items[0].ok"}, STRUCTURED, True),
    ("JsonPath", {"path": "$.other"}, STRUCTURED, "failure: the score is one value, and there are 0 at $.other"),
    ("JsonPath", {"path": "$.items"}, {"items": [1]}, "failure: a score is true, false, a number or a text"),
    ("FitsSchema", {"json_schema": {"type": "object", "required": ["verdict"]}}, STRUCTURED, True),
    ("FitsSchema", {"json_schema": {"type": "object", "required": ["other"]}}, STRUCTURED, False),
    ("FitsSchema", {"json_schema": {"pattern": "(a)\\1"}}, "aa", "failure: its schema cannot be used"),
    ("Python", {"function": "own.py:polite"}, "x", None),
]


@pytest.mark.parametrize(("kind", "keys", "output", "wanted"), ANSWERS)
def test_answers(kind: str, keys: dict[str, Any], output: Any, wanted: Any) -> None:
    found = judged(kind, keys, CaseFacts(output=output))
    if isinstance(wanted, str) and wanted.startswith("failure"):
        assert str(found).startswith(wanted)
    else:
        assert found == wanted
        assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("kind", "keys", "wanted"),
    [
        ("FileEquals", {"path": "/notes.md", "text": "bread\n"}, True),
        ("FileEquals", {"path": "notes.md", "sha256": DIGEST}, True),
        ("FileEquals", {"path": "/notes.md", "text": "bread"}, False),
        ("FileEquals", {"path": "/photo.png", "text": "bread"}, False),
        ("FileEquals", {"path": "/gone.md", "text": ""}, False),
        ("FileEquals", {"path": "/other.md", "text": ""}, False),
        ("FileContains", {"path": "/notes.md", "value": "bread"}, True),
        ("FileContains", {"path": "/notes.md", "value": "milk"}, False),
        ("FileContains", {"path": "/gone.md", "value": ""}, False),
        ("FileContains", {"path": "/photo.png", "value": "x"}, "failure: '/photo.png' is no small text file"),
        ("FileWritten", {"path": "/photo.png"}, True),
        ("FileWritten", {"path": "/gone.md"}, False),
        ("FileWritten", {"path": "/other.md"}, False),
        ("FileUntouched", {"path": "/other.md"}, True),
        ("FileUntouched", {"path": "/gone.md"}, False),
        ("FileUntouched", {"path": "/notes.md"}, False),
        ("MaxTurns", {"turns": 3}, True),
        ("MaxTurns", {"turns": 2}, False),
        ("MaxToolCalls", {"max_calls": 2}, True),
        ("MaxToolCalls", {"max_calls": 1}, False),
        ("MaxToolCalls", {"max_calls": 1, "include_failed": False}, True),
        ("MaxDollars", {"dollars": 0.02}, True),
        ("MaxDollars", {"dollars": 0.01}, False),
        ("MaxSeconds", {"seconds": 4}, True),
        ("MaxSeconds", {"seconds": 3.9}, False),
    ],
)
def test_files_and_amounts(kind: str, keys: dict[str, Any], wanted: Any) -> None:
    found = judged(kind, keys, WORK)
    assert str(found).startswith(wanted) if isinstance(wanted, str) else found is wanted


def test_amounts_that_are_not_known_are_no_score() -> None:
    unknown = CaseFacts(output="x", usage=CaseUsage(turns=1, cost=None), seconds=None)
    assert judged("MaxDollars", {"dollars": 1}, unknown) == "failure: the cost is not known: a model has no price"
    assert judged("MaxSeconds", {"seconds": 1}, unknown) == "failure: the time is not known"


def test_the_reason_says_which_files_were_written() -> None:
    many = CaseFacts(files={f"/{n}.md": CaseFile(sha256=DIGEST) for n in range(7)})
    evaluator = EVALUATORS["FileWritten"].model_validate({"path": "/x"})
    spec = EvaluationSpec.model_validate({"name": "s", "worker": "w", "cases": [], "evaluators": [evaluator]})
    (score,) = score_case(spec, EvaluationCase(id="one"), many, BoundedMatchers()).scores
    assert score.reason == "'/x' was not written; written: /0.md, /1.md, /2.md, /3.md, /4.md, and 2 more"


def test_an_expected_answer_is_compared_where_there_is_one() -> None:
    facts = CaseFacts(output={"a": 1})
    assert judged("EqualsExpected", {}, facts, expected={"a": 1}) is True
    assert judged("EqualsExpected", {}, facts, expected="a") is False
    assert judged("EqualsExpected", {}, facts) is None


def test_metrics_have_names_that_tell_them_apart() -> None:
    names: dict[str, tuple[str, dict[str, Any]]] = {
        "JsonPath $.a": ("JsonPath", {"path": "$.a"}),
        "FileEquals /a": ("FileEquals", {"path": "/a", "text": ""}),
        "FileContains /a": ("FileContains", {"path": "/a", "value": ""}),
        "FileWritten /a": ("FileWritten", {"path": "/a"}),
        "FileUntouched /a": ("FileUntouched", {"path": "/a"}),
        "NeverCalled fs.delete": ("NeverCalled", {"capability": "fs.delete"}),
        "ArgumentCorrectness a": ("ArgumentCorrectness", {"tool_name": "a", "expected_arguments": {}}),
        "is_polite": ("Python", {"function": "own.py:is_polite"}),
        "polite": ("Contains", {"value": "please", "evaluation_name": "polite"}),
        "Contains": ("Contains", {"value": "please"}),
    }
    for name, (kind, keys) in names.items():
        assert EVALUATORS[kind].model_validate(keys).metric == name


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("JsonPath", {"path": "verdict"}),
        ("Matches", {"pattern": "a", "path": "$..a"}),
        ("FileEquals", {"path": "/a"}),
        ("FileEquals", {"path": "/a", "text": "", "sha256": DIGEST}),
        ("Called", {}),
    ],
)
def test_keys_that_make_no_sense_are_refused(kind: str, keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"path|text|tool"):
        EVALUATORS[kind].model_validate(keys)


def test_the_base_judges_nothing() -> None:
    with pytest.raises(NotImplementedError):
        BaseEvaluator().evaluate(None)  # type: ignore[arg-type]


CALLS = (
    CaseCall(tool="list_files"),
    CaseCall(tool="read_file", args={"path": "/a"}, path="main/reader-1"),
    CaseCall(tool="read_file", args={"path": "/b", "limit": 1}, path="main/reader-2"),
    CaseCall(tool="delete_file", args={"path": "/a"}, capabilities=("fs.delete",), decision="approved"),
    CaseCall(
        tool="delete_file", args={"path": "/b"}, capabilities=("fs.delete",), decision="rejected", outcome="refused"
    ),
    CaseCall(tool="shell", args={"command": "make"}, capabilities=("proc.exec",), outcome="unknown"),
    CaseCall(tool="shell", args={"command": "ls"}, capabilities=("proc.exec",), outcome="failed"),
    CaseCall(tool="send", outcome="refused"),
)


def judged_calls(kind: str, keys: dict[str, Any], calls: tuple[CaseCall, ...] = CALLS) -> tuple[Any, str]:
    seen = Seen(expected=None, facts=CaseFacts(calls=calls), matchers=BoundedMatchers())
    found = EVALUATORS[kind].model_validate(keys).evaluate(seen)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "keys", "passes"),
    [
        ("Called", {"tool": "read_file"}, True),
        ("Called", {"tool": "read_file", "at_least": 3}, False),
        ("Called", {"tool": "read_file", "at_most": 1}, False),
        ("Called", {"tool": "read_file", "worker_path": "main/reader-1", "at_most": 1}, True),
        ("Called", {"tool": "read_file", "args": {"path": "/b"}}, True),
        ("Called", {"tool": "read_file", "args": {"path": "/c"}}, False),
        ("Called", {"tool": "read_file", "args": {"limit": 2}}, False),
        ("Called", {"capability": "fs.delete", "at_most": 1}, True),
        # What failed, or may not have happened, was not done.
        ("Called", {"tool": "shell"}, False),
        ("Called", {"tool": "shell", "include_failed": True, "at_least": 2}, True),
        ("Called", {"tool": "send", "include_failed": True}, False),
        ("NeverCalled", {"tool": "move_file"}, True),
        ("NeverCalled", {"tool": "read_file"}, False),
        # It was never run, and the model wanted it.
        ("NeverCalled", {"tool": "send"}, False),
        ("NeverCalled", {"tool": "send", "include_refused": False}, True),
        ("AskedFirst", {"tool": "delete_file"}, True),
        ("AskedFirst", {"capability": "proc.exec"}, False),
        ("AskedFirst", {"tool": "move_file"}, True),
        ("AskedFirst", {"tool": "send"}, True),
        ("CallOrder", {"tools": ["list_files", "delete_file"]}, True),
        ("CallOrder", {"tools": ["read_file", "read_file"]}, True),
        ("CallOrder", {"tools": ["delete_file", "list_files"]}, False),
        ("CallOrder", {"tools": ["read_file", "read_file", "read_file"]}, False),
        ("ToolCorrectness", {"expected_tools": ["delete_file", "read_file", "read_file", "list_files"]}, True),
        ("ToolCorrectness", {"expected_tools": ["read_file"], "allow_extra": True}, True),
        ("ToolCorrectness", {"expected_tools": ["read_file"]}, False),
        ("ToolCorrectness", {"expected_tools": ["shell"], "allow_extra": True}, False),
        ("ToolCorrectness", {"expected_tools": ["shell"], "allow_extra": True, "include_failed": True}, True),
        ("ArgumentCorrectness", {"tool_name": "read_file", "expected_arguments": {"path": "/a"}}, True),
        ("ArgumentCorrectness", {"tool_name": "read_file", "expected_arguments": {"path": "/b"}}, False),
        (
            "ArgumentCorrectness",
            {"tool_name": "read_file", "expected_arguments": {"path": "/b"}, "occurrence": "last"},
            True,
        ),
        (
            "ArgumentCorrectness",
            {"tool_name": "read_file", "expected_arguments": {"path": "/b"}, "occurrence": 1, "match_mode": "exact"},
            False,
        ),
        ("ArgumentCorrectness", {"tool_name": "read_file", "expected_arguments": {}, "occurrence": 2}, False),
        ("ArgumentCorrectness", {"tool_name": "read_file", "expected_arguments": {}, "occurrence": -1}, False),
        ("ArgumentCorrectness", {"tool_name": "other", "expected_arguments": {}, "occurrence": "last"}, False),
    ],
)
def test_calls(kind: str, keys: dict[str, Any], passes: bool) -> None:
    value, reason = judged_calls(kind, keys)
    assert value is passes
    assert passes or reason


def test_a_reason_tells_what_was_called() -> None:
    assert judged_calls("Called", {"tool": "send"})[1].startswith("0 calls; called: list_files, read_file, read_file")
    many = tuple(CaseCall(tool="a") for _ in range(25))
    assert judged_calls("CallOrder", {"tools": ["b"]}, many)[1].endswith("a, and 5 more")
    assert judged_calls("CallOrder", {"tools": ["b"]}, ())[1] == "no 'b' in its place; called: nothing"


@pytest.mark.parametrize(
    ("order", "expected", "value"),
    [
        ("exact", ["a", "b", "c"], 1.0),
        ("exact", ["a", "c", "b"], 0.0),
        ("in_order", ["a", "c"], 0.8),
        ("in_order", ["c", "b", "a"], 1 / 3),
        ("any_order", ["c", "b", "a"], 1.0),
        ("any_order", ["a", "a"], 0.4),
        ("any_order", [], 0.0),
    ],
)
def test_a_trajectory_is_scored_by_the_share_in_common(order: str, expected: list[str], value: float) -> None:
    calls = tuple(CaseCall(tool=name) for name in "abc")
    assert judged_calls("TrajectoryMatch", {"expected_trajectory": expected, "order": order}, calls)[
        0
    ] == pytest.approx(value)


def test_names_in_common() -> None:
    assert common_in_order("abcbdab", "bdcaba") == 4
    assert common_in_order("", "a") == 0
    twice = tuple(CaseCall(tool=name) for name in "aab")
    keys = {"expected_trajectory": list("abb"), "order": "any_order"}
    assert judged_calls("TrajectoryMatch", keys, twice)[1] == "2 in common, 3 called, 3 expected"
    assert judged_calls("TrajectoryMatch", {"expected_trajectory": []}, ())[0] == 1.0


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
