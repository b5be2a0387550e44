"""What the benchmarks compute without a process: the scripted model's answers, and the table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.contenders.model_server import compose, plan_of
from benchmarks.contenders.plans import Plan, plan_in
from benchmarks.table import Row, at_least, at_most, markdown

TREE = Plan(job="tree", tool="node", width=2, child=Plan(job="", turns=0))


def body(prompt: str) -> bytes:
    """A request as OpenAI's client sends it."""
    messages = [{"role": "system", "content": 'Say "PLAN".'}, {"role": "user", "content": prompt}]
    return json.dumps({"messages": messages, "model": "scripted"}, separators=(",", ":")).encode()


def calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The arguments of a message's calls."""
    return [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]]


def test_the_plan_comes_back_out_of_a_request() -> None:
    assert plan_of(body(f"Please. {TREE.prompt()}\nThank you.")) == TREE


def test_a_request_without_a_plan_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a plan"):
        plan_of(body("hello"))


def test_a_delegation_hands_on_the_plan_of_the_callee_under_a_name_of_its_own() -> None:
    children = [plan_in(arguments["input"]) for arguments in calls(compose(TREE, 0))]
    assert children == [Plan(job="tree.0.0", turns=0), Plan(job="tree.0.1", turns=0)]
    assert compose(children[0], 0)["content"] == "tree.0.0 is done."


def test_each_turn_calls_the_tool_with_another_key_until_the_last() -> None:
    plan = Plan(job="job", turns=2, arguments={"size": 4096, "path": "/{key}.md"})
    assert [calls(compose(plan, turn)) for turn in (0, 1)] == [
        [{"key": "job.0.0", "size": 4096, "path": "/job.0.0.md"}],
        [{"key": "job.1.0", "size": 4096, "path": "/job.1.0.md"}],
    ]
    assert "tool_calls" not in compose(plan, 2)


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ({"bare": 100.0, "ours": 50.0}, True),
        ({"bare": 100.0, "ours": 51.0}, False),
        ({"bare": "killed at turn 92", "ours": 7.0}, True),  # a peer that could not do it sets no limit
        ({"bare": 100.0, "ours": "killed at turn 92"}, False),
        ({"bare": 100.0}, False),
    ],
)
def test_a_target_is_held_against_what_was_measured_beside_it(values: dict[str, float | str], met: bool) -> None:
    assert at_most(Row("time", values, "ms"), bare=0.5).met is met


def test_the_table_shows_ratios_only_of_numbers() -> None:
    row = at_most(Row("time", {"bare": 160.0, "DBOS": "killed", "ours": 40.0}, "ms"), limit=50)
    assert markdown([row]).splitlines()[2] == "| time | 160 ms | killed | 40 ms | 0.25 | - | ≤ 50 ms | yes |"


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ({"bare": 2.0, "ours": 4.0}, True),
        ({"bare": 2.0, "ours": 3.9}, False),
        ({"bare": "stalled", "ours": 0.1}, True),  # a peer that could not do it sets no limit
        ({"bare": 2.0, "ours": "stalled"}, False),
        ({"bare": 2.0}, False),
    ],
)
def test_a_target_that_more_is_better_than(values: dict[str, Any], met: bool) -> None:
    row = at_least(Row("runs a second", values), bare=2)
    assert (row.met, row.target) == (met, "≥ 2 x bare")
