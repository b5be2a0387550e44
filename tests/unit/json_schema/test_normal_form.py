"""One form for values that fit one schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.json_schema import find_problems, normalised

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
SCHEMA: dict[str, Any] = {
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
    assert find_problems(SCHEMA, value) == []
    assert json.dumps(normalised(SCHEMA, value)) == text


def test_alternatives_beside_the_fields_of_a_schema_change_nothing() -> None:
    schema = {**ITEM, "anyOf": [{"required": ["n"]}, {"required": ["name"]}]}
    assert list(normalised(schema, {"n": 1, "name": "x"})) == ["name", "n"]


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/$defs/Gone"}, {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}, {"anyOf": [True]}],
)
def test_what_no_schema_describes_keeps_its_values(schema: dict[str, Any]) -> None:
    assert normalised(schema, {"b": [1.0], "a": 1}) == {"b": [1.0], "a": 1}
