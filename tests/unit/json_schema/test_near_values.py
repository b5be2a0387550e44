"""Values in another form than their schema wants, their normal form, and their problems."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.json_schema import Steps, find_problems, normalised, read_value

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


ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
ORDERED: dict[str, Any] = {
    "type": "object",
    "$defs": {"Item": ITEM},
    "properties": {
        "title": {"type": "string"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "best": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "number"}]},
        "of": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Item"}},
        "count": {"type": ["integer", "null"]},
    },
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # keys in the order of the schema, others behind them by name
        ({"z": 1, "count": 2, "a": 1, "title": "t"}, '{"title": "t", "count": 2, "a": 1, "z": 1}'),
        # at every depth: in lists, behind references, in one of several forms
        ({"items": [{"n": 1, "name": "x"}]}, '{"items": [{"name": "x", "n": 1}]}'),
        ({"best": {"n": 1, "name": "x"}}, '{"best": {"name": "x", "n": 1}}'),
        ({"best": None}, '{"best": null}'),
        ({"of": {"k": {"n": 1, "name": "x"}}}, '{"of": {"k": {"name": "x", "n": 1}}}'),
        # whole numbers, and numbers that are no whole ones by their schema
        ({"count": 3.0, "pair": [1.0, 1.0, 1.0]}, '{"pair": [1, 1.0, 1.0], "count": 3}'),
        ({"count": None}, '{"count": null}'),
    ],
)
def test_a_value_is_written_as_its_schema_says(value: dict[str, Any], text: str) -> None:
    assert find_problems(ORDERED, value) == []
    assert json.dumps(normalised(ORDERED, value)) == text


def test_alternatives_beside_the_fields_of_a_schema_change_nothing() -> None:
    schema = {**ITEM, "anyOf": [{"required": ["n"]}, {"required": ["name"]}]}
    assert list(normalised(schema, {"n": 1, "name": "x"})) == ["name", "n"]


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/$defs/Gone"}, {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}, {"anyOf": [True]}],
)
def test_what_no_schema_describes_keeps_its_values(schema: dict[str, Any]) -> None:
    assert normalised(schema, {"b": [1.0], "a": 1}) == {"b": [1.0], "a": 1}


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
