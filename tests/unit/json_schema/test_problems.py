"""Problems of a value that is long: what is wrong with it is said all the same, in a bounded text."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.json_schema import find_problems

LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    ("schema", "value", "end"),
    [
        ({"properties": {"a": {"maxLength": 10}}}, {"a": LONG}, "is too long"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": LONG}, "is not of type 'integer'"),
        ({"properties": {"a": {"enum": ["b", "c"]}}}, {"a": LONG}, "is not one of ['b', 'c']"),
        ({"additionalProperties": {"type": "integer"}}, {LONG: LONG}, "is not of type 'integer'"),
        ({"type": "array", "items": {"type": "null"}}, [[LONG]], "is not of type 'null'"),
    ],
)
def test_a_problem_of_a_long_value_ends_with_what_is_wrong(schema: Any, value: Any, end: str) -> None:
    (problem,) = find_problems(schema, value)
    assert problem.endswith(end)
    assert len(problem) < 700
