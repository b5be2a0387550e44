"""Fitting what a script knows into the schema it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.offline.schema_fit import fit

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    "required": ["name", "next"],
}


@pytest.mark.parametrize(
    ("schema", "known", "fitted"),
    [
        ({"type": "string", "maxLength": 3}, "abcd", "abc"),  # too long: cut
        ({"type": "string"}, None, "unknown"),  # nothing known: the text
        ({"type": "integer", "minimum": 1, "maximum": 5}, 9, 5),  # out of range: the nearest
        ({"type": "integer", "exclusiveMinimum": 0}, None, 1),
        ({"type": "number"}, 2.5, 2.5),
        ({"enum": ["go", "pass"]}, "watch", "go"),  # not among those allowed: the first
        ({"const": 7}, None, 7),
        ({"type": "boolean"}, None, False),
        ({"type": ["string", "null"]}, "kept", "kept"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ["a"], ["a", "unknown"]),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, None, 0),  # null only where nothing else fits
        ({"type": "null"}, "x", None),
        ({"type": "object"}, {"free": 1}, {"free": 1}),
    ],
)
def test_a_value_is_taken_where_it_fits_and_made_to_fit_elsewhere(schema: Any, known: Any, fitted: Any) -> None:
    value = fit({"type": "object", "properties": {"it": schema}, "required": ["it"]}, {"it": known}, text="unknown")
    assert value == {"it": fitted}
    assert schema_problems(schema, value["it"]) == []


def test_properties_nobody_asked_for_are_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert fit(schema, {"a": "1", "z": "2"}) == {"a": "1"}


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    value = fit({**NODE, "$defs": {"Node": NODE}}, {"name": "first", "next": {"name": "second"}}, text="-")
    assert value["next"]["name"] == "second"


def test_a_reference_to_nowhere_allows_anything() -> None:
    schema = {"type": "object", "properties": {"it": {"$ref": "#/$defs/Missing"}}, "required": ["it"]}
    assert fit(schema, {"it": 3}) == {"it": 3}
