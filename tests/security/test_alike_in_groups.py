"""The table of equal questions: values that differ never look the same in it, whatever a model writes."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.groups import CELL_CHARS, CallGroup, group_of
from llm_do_temporal.policy.values import CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="."),))
LONG = {
    "letters": "x" * 100,
    "lines": "line\n" * 40,
    "a number": "1" * 81,
    "spaces": " " * 200,
    "zero width": "\u200b" * 90,
    "half a page": "word " * 500,
    "JSON": '{"a": "' + "b" * 100 + '"}',
    "other letters": "ж" * 81,
    "marks": "…" * 90,
    "brackets": "(100 characters, " + "0" * 70,
}


def group(**args: Any) -> CallGroup:
    use = CapabilityUse(name="sandbox.write", payload={"path": "/a.md"})
    return group_of("write_file", {"path": "/a.md", **args}, (use,), TREE)


@pytest.mark.parametrize("long", LONG)
def test_a_short_value_does_not_pass_for_a_long_one(long: str) -> None:
    """A model knows how a long value is shown, and writes just that as another one."""
    shown = group(content=LONG[long]).cells["content"]
    assert group(content=shown).cells["content"] != shown
    assert not group(content=shown).is_whole


@pytest.mark.parametrize("long", LONG)
def test_what_passes_for_a_value_does_not_pass_for_that_in_turn(long: str) -> None:
    seen, value = set[str](), LONG[long]
    for _ in range(5):
        value = group(content=value).cells["content"]
        assert value not in seen
        seen.add(value)


@pytest.mark.parametrize(
    "end", ["(1 characters, 0)", "(1,000 characters, abcdef)", "… (5 characters, " + "0" * 32 + ")"]
)
@pytest.mark.parametrize("begin", ["", "x", "x" * 20, "x" * 20 + "… "])
def test_a_value_that_ends_like_a_cut_one_is_never_whole(begin: str, end: str) -> None:
    value = begin + end
    assert len(value) <= CELL_CHARS
    told = group(content=value)
    assert (told.cells["content"] == value, told.is_whole) == (False, False)


PAIRS: dict[str, tuple[Any, Any]] = {
    "number and text": (1, "1"),
    "true and text": (True, "true"),
    "null and text": (None, "null"),
    "object and text": ({"a": 1}, '{"a":1}'),
    "list and text": ([1], "[1]"),
    "empty list and text": ([], "[]"),
    "true and number": (True, 1),
    "null and false": (None, False),
    "list of text and of number": (["1"], [1]),
    "object with other types": ({"a": "1"}, {"a": 1}),
    "deep": ([[["1"]]], [[[1]]]),
    "empty text and null": ("", None),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_values_of_two_types_are_not_one_group(pair: str) -> None:
    one, other = (group(content=value) for value in PAIRS[pair])
    assert one.key != other.key or one.cells["content"] != other.cells["content"]


NEAR: dict[str, tuple[Any, Any]] = {
    "a space at the end": ("a", "a "),
    "a line end": ("a", "a\n"),
    "a number and its float": (1, 1.0),
    "composed and not": ("é", "e\u0301"),
    "zero width": ("a", "a\u200b"),
    "the other direction": ("ab", "a\u202eb"),
    "letters that look alike": ("paypal", "p\u0430ypal"),
    "long, one letter in the middle": ("x" * 100 + "a" + "x" * 100, "x" * 100 + "b" + "x" * 100),
    "long, the end": ("x" * 200 + "a", "x" * 200 + "b"),
    "long, order of keys in a text": ('{"a":1,"b":2}' * 20, '{"b":2,"a":1}' * 20),
    "minus zero": (0.0, -0.0),
    "large numbers": (2**63, 2**63 + 1),
}


@pytest.mark.parametrize("near", NEAR)
def test_values_that_are_near_are_told_apart(near: str) -> None:
    one, other = (group(content=value).cells["content"] for value in NEAR[near])
    assert one != other
