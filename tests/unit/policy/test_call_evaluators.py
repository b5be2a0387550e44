"""Evaluators of calls: was it called, was a person asked first, in which order, with which arguments."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.json_schema.validation import BoundedMatchers
from llm_do_temporal.policy.evaluations.evaluators import EVALUATORS, Seen
from llm_do_temporal.policy.evaluations.facts import CaseCall, CaseFacts
from llm_do_temporal.policy.evaluations.trajectories import common_in_order, common_items, f_score

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


def judged(kind: str, keys: dict[str, Any], calls: tuple[CaseCall, ...] = CALLS) -> tuple[Any, str]:
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
    value, reason = judged(kind, keys)
    assert value is passes
    assert passes or reason


def test_a_reason_tells_what_was_called() -> None:
    assert judged("Called", {"tool": "send"})[1].startswith("0 calls; called: list_files, read_file, read_file")
    many = tuple(CaseCall(tool="a") for _ in range(25))
    assert judged("CallOrder", {"tools": ["b"]}, many)[1].endswith("a, and 5 more")
    assert judged("CallOrder", {"tools": ["b"]}, ())[1] == "no 'b' in its place; called: nothing"


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
    assert judged("TrajectoryMatch", {"expected_trajectory": expected, "order": order}, calls)[0] == pytest.approx(
        value
    )


def test_names_in_common() -> None:
    assert common_in_order("abcbdab", "bdcaba") == 4
    assert common_in_order("", "a") == 0
    assert common_items("aab", "abb") == 2
    assert f_score(0, 0, 0) == 1.0
