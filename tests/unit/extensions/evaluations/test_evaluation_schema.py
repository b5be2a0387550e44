"""JSON Schema of evaluation files: it accepts what the reader accepts, and editors find mistakes with it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
import pytest

from llm_do_temporal.extensions.evaluations.files import evaluation_schema

CASES = [{"name": "ada", "inputs": "Greet Ada."}]


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(evaluation_schema())


def is_valid(**keys: Any) -> bool:
    return validator().is_valid({"worker": "greeter", "cases": CASES, **keys})


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"$schema": "x.json", "name": "n", "repeats": 3, "turns": "batch", "limits": {"turns": 5}},
        {"evaluators": ["EqualsExpected", {"Contains": "Ada"}, {"Contains": {"value": {"a": 1}}}]},
        {"evaluators": [{"MaxTurns": 3}, {"MaxModelRequests": {"max_requests": 3}}, {"MaxDuration": {"seconds": 2}}]},
        {"evaluators": [{"CallOrder": ["a", "b"]}, {"Called": {"tool": "a", "at_most": 1}}]},
        {"judge": "politeness", "thresholds": {"Equals": 0.5, "errors": {"at_most": 0}}},
        {"judge": {"worker": "politeness", "shows": ["output"]}},
        {"cases": [{"inputs": {"a": 1}, "decide": [{"decision": "approve"}], "evaluators": [{"Equals": "x"}]}]},
    ],
)
def test_what_the_reader_accepts_is_valid(keys: dict[str, Any]) -> None:
    assert is_valid(**keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"repeats": 0},
        {"worke": "x"},
        {"cases": [{"input": 3}]},
        {"evaluators": ["Contains"]},
        {"evaluators": [{"Contain": "x"}]},
        {"evaluators": [{"Contains": {"value": "x", "sensitive": True}}]},
        {"evaluators": [{"MaxTurns": "many"}]},
        {"thresholds": {"Equals": "much"}},
        {"judge": 3},
    ],
)
def test_mistakes_are_found(keys: dict[str, Any]) -> None:
    assert not is_valid(**keys)
