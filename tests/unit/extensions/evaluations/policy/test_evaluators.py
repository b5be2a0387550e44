"""Evaluators, each in a table of what passes, what fails and what cannot be judged."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations.activities import BoundedMatchers
from llm_do_temporal.extensions.evaluations.policy.scores import (
    EVALUATORS,
    BaseEvaluator,
    CaseCall,
    CaseFacts,
    CaseFile,
    CaseUsage,
    EvaluationCase,
    EvaluationSpec,
    Seen,
    common_in_order,
    score_case,
)

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
