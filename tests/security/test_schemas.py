"""Schemas and values of strangers: no pattern, shape or reference stops anybody, and nothing is fetched.

Each input runs in this process with a limit on its time: what would hang fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from llm_do_temporal.activities.external import usable_schema
from llm_do_temporal.definitions.workers.worker_file import check_output_schema
from llm_do_temporal.errors import DelegationRefusal, EffectFailed
from llm_do_temporal.json_schema import MAX_STEPS, Steps, check_schema, schema_problems
from llm_do_temporal.offline.schema_fit import fit
from llm_do_temporal.policy.delegation import normalise_template
from llm_do_temporal.sandbox.listing import parse_pattern
from llm_do_temporal.workflows.tools.gate import _validate_arguments  # pyright: ignore[reportPrivateUsage]
from tests.support.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.timeout(PATIENCE_SECONDS)

A = "a" * 40 + "!"
EVIL = {
    "letters": (r"^([a-zA-Z0-9]+)+@x$", A),
    "plus in plus": (r"^(a+)+$", A),
    "star in star": (r"^(a*)*$", A),
    "star in plus": (r"^(a*)+$", A),
    "overlap": (r"^(a|a)*$", A),
    "overlap with optional": (r"^(a|a?)+$", A),
    "prefix": (r"^(a|aa)+$", A),
    "word and digit": (r"^(\w|\d)+$", "1" * 40 + "!"),
    "any": (r"^(.*)*$", "a" * 40 + "\n"),
    "list": (r"^(.*,)*x$", "a," * 40),
    "spaces": (r"^(\s+)*x$", " " * 40),
    "two runs": (r"(x+x+)+y", "x" * 40),
    "long polynomial": (r"^\s*\s*\s*\s*\s*\s*x$", " " * 3000),
    "search polynomial": (r"a*a*a*a*a*b", "a" * 3000),
    "optional chain": ("a?" * 40 + "a" * 40 + "$", "a" * 39 + "!"),
    "classes": (r"^([a-z]|[a-f])*$", A),
    "dotted": (r"^([\w-]+\.?)+$", A),
    "mail": (r"^([a-z0-9]+[._-]?)*@x$", A),
    "address": (r"^(https?://)?([\w.-]+)+/$", A),
    "nested three": (r"^((a+)+)+$", A),
    "lazy": (r"^(a+?)+?$", A),
    "case": (r"(?i)^(a+)+$", "A" * 40 + "!"),
    "capture": (r"^(?P<x>a+)+$", A),
    "look-ahead first": (r"^(?=(a+)+$)a", A),
    "not look-ahead first": (r"^(?!(a+)+$)a{60}", A),
}


class _Tool:
    name, description = "t", ""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    async def prepare(self, args: dict[str, Any]) -> Any:
        raise AssertionError(args)


def _told(schema: dict[str, Any], args: dict[str, Any], steps: Steps | None = None) -> str:
    _, told = _validate_arguments(cast("Any", _Tool(schema)), args, steps)
    assert told
    return told


@pytest.mark.parametrize(("pattern", "text"), EVIL.values(), ids=EVIL)
def test_a_pattern_on_an_argument_ends(pattern: str, text: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    assert "are not valid: a: '" in _told(schema, {"a": text})


def _in_property(pattern: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"pattern": pattern}}, "required": ["a"]}


PLACES: dict[str, Callable[[str], Any]] = {
    "items": lambda p: {"properties": {"l": {"items": {"pattern": p}}}},
    "prefixItems": lambda p: {"properties": {"l": {"prefixItems": [{"pattern": p}]}}},
    "contains": lambda p: {"properties": {"l": {"contains": {"pattern": p}}}},
    "patternProperties": lambda p: {"properties": {"o": {"patternProperties": {p: True}, "minProperties": 2}}},
    "additionalProperties": lambda p: {
        "properties": {"o": {"patternProperties": {p: True}, "additionalProperties": False}}
    },
    "unevaluatedProperties": lambda p: {
        "properties": {"o": {"patternProperties": {p: True}, "unevaluatedProperties": False}}
    },
    "unevaluated in allOf": lambda p: {
        "properties": {"o": {"allOf": [{"patternProperties": {p: True}}], "unevaluatedProperties": False}}
    },
    "unevaluatedItems": lambda p: {"properties": {"l": {"unevaluatedItems": {"pattern": p}}}},
    "propertyNames": lambda p: {"properties": {"o": {"propertyNames": {"pattern": p}}}},
    "anyOf": lambda p: {"properties": {"a": {"anyOf": [{"pattern": p}, {"type": "null"}]}}},
    "oneOf": lambda p: {"properties": {"a": {"oneOf": [{"pattern": p}, {"type": "null"}]}}},
    "allOf": lambda p: {"allOf": [_in_property(p)]},
    "if": lambda p: {"properties": {"a": {"if": {"pattern": p}, "else": {"type": "null"}}}},
    "not": lambda p: {"properties": {"a": {"not": {"not": {"pattern": p}}}}},
    "$defs": lambda p: {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"pattern": p}}},
    "definitions": lambda p: {"properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"pattern": p}}},
    "anchor": lambda p: {"properties": {"a": {"$ref": "#x"}}, "$defs": {"y": {"$anchor": "x", "pattern": p}}},
    "dynamic anchor": lambda p: {
        "properties": {"a": {"$dynamicRef": "#x"}},
        "$defs": {"y": {"$dynamicAnchor": "x", "pattern": p}},
    },
    "unknown keyword": lambda p: {"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": {"pattern": p}}},
    "inside a const": lambda p: {"properties": {"a": {"$ref": "#/x/const"}}, "x": {"const": {"pattern": p}}},
    "dependentSchemas": lambda p: {"dependentSchemas": {"a": _in_property(p)}},
    "an older draft": lambda p: {"$schema": "http://json-schema.org/draft-07/schema#", **_in_property(p)},
    "an older draft within": lambda p: {
        "properties": {"a": {"not": {"not": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": p}}}}
    },
    "an older draft in a branch": lambda p: {
        "properties": {"a": {"anyOf": [{"$schema": "http://json-schema.org/draft-04/schema#", "pattern": p}]}}
    },
}
VALUE = {"a": A, "l": [A], "o": {A: 1}}


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
def test_a_pattern_ends_wherever_it_stands(make: Callable[[str], Any]) -> None:
    assert schema_problems(make(r"^([a-zA-Z0-9]+)+@x$"), VALUE)


def _doubling(kind: str, depth: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{n}": {kind: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(depth)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{depth}": {"type": "string"}}}


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


_TREE = {
    "$ref": "#/$defs/n",
    "$defs": {
        "n": {
            "anyOf": [
                {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [name], "type": "object"} for name in "xyz"
            ]
        }
    },
}
LARGE = list(range(30_000))
SHAPES: dict[str, tuple[Any, Any]] = {
    "itself": ({"$ref": "#"}, 1),
    "itself twice": ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
    "itself by not": ({"not": {"$ref": "#"}}, 1),
    "itself by if": ({"if": {"$ref": "#"}}, 1),
    "a circle": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
    "an anchored circle": ({"$anchor": "x", "$ref": "#x"}, 1),
    "a dynamic circle": ({"$dynamicAnchor": "x", "$dynamicRef": "#x"}, 1),
    "unevaluated circle": ({"unevaluatedProperties": False, "$ref": "#"}, {"a": 1}),
    "unevaluated items circle": ({"unevaluatedItems": False, "$ref": "#"}, [1]),
    "allOf doubling": (_doubling("allOf", 40), "x"),
    "anyOf doubling": (_doubling("anyOf", 40), 1),
    "oneOf doubling": (_doubling("oneOf", 40), 1),
    "not doubling": ({"not": _doubling("allOf", 40)["$defs"]["d0"], "$defs": _doubling("allOf", 40)["$defs"]}, "x"),
    "tree of choices": (_TREE, _nested(60)),
    "deep value": ({}, _nested(3000)),
    "unique objects": ({"uniqueItems": True}, [{"a": n, "b": [n]} for n in range(20_000)]),
    "unique lists of one hash": ({"uniqueItems": True}, [[n * (2**61 - 1)] for n in range(20_000)]),
    "unique numbers of one hash": ({"uniqueItems": True}, [n * (2**61 - 1) for n in range(40_000)]),
    "large enum": ({"items": {"enum": [[n] for n in range(9000)]}}, [[-n] for n in range(1, 20_000)]),
    "many branches": ({"items": {"anyOf": [{"const": -n} for n in range(1, 500)]}}, LARGE),
    "long messages": ({"allOf": [{"type": "number"}] * 20_000}, "x" * 1_000_000),
    "many unknown keywords": ({"items": {f"k{n}": 1 for n in range(20_000)}}, LARGE),
    "evaluated one by one": ({"allOf": [{"contains": {"type": "number"}}] * 20, "unevaluatedItems": False}, LARGE),
    "patterns times names": (
        {"patternProperties": {f"k{n}(a|b){{90}}": {} for n in range(200)}},
        {f"{'k' * 50}{n}": 1 for n in range(3000)},
    ),
    "a pattern with many states": ({"pattern": "(a|b)*a(a|b){2000}c"}, "ab" * 400_000),
    "a huge reference": ({"$ref": "#" + "/a" * 400_000}, 1),
    "anchors in a large schema": (
        {"items": {"$ref": "#x"}, "$defs": {str(n): {"$anchor": f"x{n}"} for n in range(2000)}},
        LARGE,
    ),
    "large numbers": ({"items": {"multipleOf": 1e-300}}, [10**4000] * 30_000),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("schema", "value"), SHAPES.values(), ids=SHAPES)
def test_a_shape_that_takes_for_ever_is_given_up(schema: Any, value: Any) -> None:
    first = schema_problems(schema, value)
    assert first == schema_problems(schema, value)  # a replay says the same
    assert all(len(problem) < 1000 for problem in first)
    # What is unique is valid, and soon found to be.
    assert first or schema == {"uniqueItems": True}


REFUSED = {
    "look-ahead inside": r"a(?=b)",
    "look-ahead of one alternative": r"^(?=a)b|c",
    "look-behind": r"(?<=a)b",
    "back-reference": r"(a)\1",
    "atomic": r"(?>a+)b",
    "unclosed": "(a",
    "huge": "((a{1,100}){1,100}){1,100}",
    "deep": "(" * 1500 + ")" * 1500,
    "long": "a" * 10_000,
    "half a character": "\ud800+",
}


@pytest.mark.parametrize("pattern", REFUSED.values(), ids=REFUSED)
def test_a_pattern_that_is_not_linear_is_a_mistake_at_its_key(pattern: str) -> None:
    (path, message), *_others = check_output_schema(_in_property(pattern))
    assert path == ("properties", "a", "pattern")
    assert "the pattern" in message


@pytest.mark.parametrize("pattern", REFUSED.values(), ids=REFUSED)
def test_a_tool_of_a_server_with_such_a_pattern_is_offered_without_it(pattern: str) -> None:
    usable, left, problem = usable_schema({"type": "object", **_in_property(pattern)})
    assert (left, problem) == (["properties.a.pattern"], None)
    assert schema_problems(usable, {"a": A}) == []


@pytest.mark.parametrize("kind", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_are_a_mistake_when_loaded(kind: str) -> None:
    assert "too large once they are written out" in str(check_schema({"type": "object", **_doubling(kind, 40)}))


@pytest.mark.parametrize("depth", [300, 5000])
def test_a_schema_nested_too_deeply_is_a_mistake(depth: int) -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    assert check_schema(schema)
    assert schema_problems(schema, {"a": {}})


def test_the_calls_of_one_answer_share_what_may_be_spent() -> None:
    steps = Steps()
    schema = {"type": "object", **_TREE}
    for _ in range(200):
        _told(schema, _nested(12), steps)
    assert 0 <= steps.left < MAX_STEPS
    for _ in range(2000):
        _told(schema, _nested(12), steps)
    assert steps.left == 0


GREEDY: dict[str, dict[str, Any]] = {
    "alternatives": {"anyOf": [{"$ref": "#"}] * 10},
    "choices of objects": {
        "type": "object",
        "properties": {"a": {"anyOf": [{"$ref": "#"}] * 6}},
        "required": ["a"],
    },
    "characters": {"type": "string", "minLength": 10**11},
    "items": {"type": "array", "items": {}, "minItems": 10**10},
    "pattern": {"anyOf": [{"pattern": r"^(a+)+$"}]},
}


@pytest.mark.parametrize("schema", GREEDY.values(), ids=GREEDY)
def test_an_offline_answer_to_a_greedy_schema_is_small(schema: dict[str, Any]) -> None:
    assert len(json.dumps(fit(schema, cast("Any", {}), text=A))) < 1_000_000


@pytest.mark.parametrize("pattern", ["[a" * 30_000, "*a" * 100_000, "?*" * 50_000, "**/" * 50_000 + "x", "x" * 2_000])
def test_a_glob_of_any_length_is_refused(pattern: str) -> None:
    with pytest.raises(EffectFailed, match="at most"):
        parse_pattern(pattern)


@pytest.mark.parametrize("name", ["a/" * 500_000 + "x.yaml", "pkg:" + "a" * 1_000_000, "a" * 5_000 + ".yaml"])
def test_a_templates_name_of_any_length_is_refused(name: str) -> None:
    with pytest.raises(DelegationRefusal, match="at most"):
        normalise_template(name)


@pytest.mark.control
@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        ({"pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}, "1.5", "+"),  # a decimal, as Pydantic writes it
        ({"pattern": r"^(?=.*[A-Z])(?=.*\d).{8,}$"}, "Abcdefg1", "abcdefgh"),  # a password
        ({"pattern": r"^.{1,4096}$"}, "x" * 4000, "x" * 5000),
        ({"pattern": r"^\u00e9$"}, "é", "e"),
        ({"pattern": r"\p{L}"}, "é", "1"),
        ({"pattern": r"^\d$"}, "1", "\u0663"),  # ECMA's digits are 0 to 9
        ({"uniqueItems": True}, [1, True, "1"], [1, 1.0]),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 2}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        ({"items": {"type": "integer"}}, list(range(20_000)), ["x"]),
        ({"$id": "http://x/", "$ref": "y", "$defs": {"y": {"$id": "y", "type": "string"}}}, "a", 1),  # a bundle
        ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}, "a", 1),
    ],
)
def test_ordinary_schemas_go_on_working(schema: dict[str, Any], fits: Any, fails: Any) -> None:
    assert check_schema(schema) is None
    assert schema_problems(schema, fits) == []
    assert schema_problems(schema, fails)


@pytest.mark.control
def test_two_thousand_rows_are_no_great_work() -> None:
    row = {"type": "object", "properties": {name: {"type": "string"} for name in "abcde"}, "required": ["a"]}
    value = [dict.fromkeys("abcde", "text") for _ in range(2_000)]
    assert schema_problems({"type": "array", "items": row}, value) == []
