"""Values that a model wrote in another form than their schema wants."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.json_schema import Steps, read_value

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["path"],
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "names": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "flag": {"type": "boolean"},
        "both": {"type": ["string", "integer"]},
        "either": {"anyOf": [{"type": "string", "minLength": 3}, {"type": "integer"}]},
        "level": {"enum": [1, 2]},
        "box": {"$ref": "#/$defs/Box"},
        "inner": {"oneOf": [{"$ref": "#/$defs/Box"}, {"type": "null"}]},
    },
    "$defs": {"Box": {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}},
}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"count": None}, {}),
        ({"count": "5"}, {"count": 5}),
        ({"count": "5.0"}, {"count": 5}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"maybe": "7"}, {"maybe": 7}),
        ({"maybe": None}, {"maybe": None}),
        ({"names": '["a"]'}, {"names": ["a"]}),
        ({"counts": '["1", 2]'}, {"counts": [1, 2]}),
        ({"flag": "true"}, {"flag": True}),
        ({"flag": "False"}, {"flag": False}),
        ({"level": "2"}, {"level": 2}),
        ({"box": '{"n": "3"}'}, {"box": {"n": 3}}),
        ({"inner": {"n": "3"}}, {"inner": {"n": 3}}),
        ({"box": {"n": None}}, {"box": {}}),
        ({"unknown": None}, {}),
        ({"both": "5"}, {"both": "5"}),
    ],
    ids=str,
)
def test_what_can_be_read_in_one_way_only_is_read(given: dict[str, Any], read: dict[str, Any]) -> None:
    value = {"path": "5", **given}
    before = repr(value)
    found, problems = read_value(SCHEMA, value)
    assert problems == []
    assert repr(found) == repr({"path": "5", **read})
    assert repr(value) == before


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": None}, "path: None is not of type 'string'"),
        ({"count": "five"}, "'five' is not of type 'integer'"),
        ({"count": "5.5"}, "'5.5' is not of type 'integer'"),
        ({"count": ""}, "'' is not of type 'integer'"),
        ({"count": 1e300}, "1e+300 is not of type 'integer'"),
        ({"count": -(2.0**63)}, "is not of type 'integer'"),
        ({"count": 1.5}, "1.5 is not of type 'integer'"),
        ({"count": True}, "True is not of type 'integer'"),
        ({"flag": "1"}, "'1' is not of type 'boolean'"),
        ({"flag": "yes"}, "'yes' is not of type 'boolean'"),
        ({"share": "NaN"}, "'NaN' is not of type 'number'"),
        ({"share": "1e999"}, "'1e999' is not of type 'number'"),
        ({"share": "9" * 5000}, "share: '9999"),
        ({"names": "a"}, "'a' is not of type 'array'"),
        ({"names": "a, b"}, "is not of type 'array'"),
        ({"names": [None]}, "None is not of type 'string'"),
        ({"names": "[" * 5000}, "names: '[[["),
        ({"box": '{"n": 1, "n": 2}'}, "is not of type 'object'"),
        ({"either": "5"}, "'5' is not valid under any of the given schemas"),
        ({"level": "3"}, "'3' is not one of [1, 2]"),
        ({"unknown": 1}, "('unknown' was unexpected); allowed are 'both', 'box', 'count'"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_can_be_read_in_two_ways_or_none_stays_wrong(given: dict[str, Any], problem: str) -> None:
    value = {"path": "5", **given}
    found, problems = read_value(SCHEMA, value)
    assert found is value
    assert problem in "; ".join(problems)


def test_a_value_that_fits_is_looked_at_once() -> None:
    once, read = Steps(), Steps()
    value = {"path": "/a", "count": 5}
    assert read_value(SCHEMA, value, once) == (value, [])
    read_value(SCHEMA, {**value, "count": "5"}, read)
    assert once.left > read.left


def test_no_more_steps_are_taken_than_there_are() -> None:
    _, problems = read_value(SCHEMA, {"path": "/a", "counts": ["1"] * 50_000})
    assert "more steps than are accepted" in problems[0]
