"""Arguments as people edit them: as text, and in forms that give back what they show."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from llm_do_temporal.errors import UsageError
from llm_do_temporal.ui.content.forms import (
    OMIT_PREFIX,
    PREFIX,
    Field,
    editable_json,
    editable_yaml,
    fields_of,
    read_arguments,
    read_fields,
    read_object,
    with_problems,
)

UNTOUCHED: list[dict[str, Any]] = [
    {"path": "/a.md", "content": "# Title\n\ntwo  \n\tthree\n"},
    {"content": "  begins with blanks\nends\n\n\n"},
    {"content": "\nempty first line"},
    {"content": " \n \n"},
    {"content": "no end of line\nat the end"},
    {"a": "yes", "b": "no", "c": "1e5", "d": "2026-01-02", "e": "null", "f": "~", "g": "", "h": "- x", "i": "#x"},
    {"n": 1, "f": 1.5, "big": 10**30, "tiny": 1e-30, "huge": 1e30, "t": True, "z": None},
    {"list": ["a", {"b": ["c\nd", []]}, {}]},
    {"key with: colon": 1, "ä": "🙂", "two\nlines": 1, "": 2},
    {"hidden": "\u202e\x00\x1b\x7f\u200b\U000e0041\u2028\x85\ufeff", "\u202ekey": "windows\r\nends"},
    {"anchor": "&a *b !!python/object:x <<", "document": "---\n...\n"},
    {"many": list(range(30_000))},
    {"half": "\ud800"},
    {},
]
ANYTHING: dict[str, Any] = {"type": "object", "properties": {"it": {}}, "required": ["it"]}


@pytest.mark.parametrize("args", UNTOUCHED)
def test_untouched_arguments_mean_the_same_and_hide_nothing(args: dict[str, Any]) -> None:
    text = editable_yaml(args)
    assert not set(text) & set("\u202e\x00\x1b\x7f\u200b\U000e0041\u2028\x85\ufeff\r")
    if "half" not in args:
        assert json.dumps(read_arguments(text)) == json.dumps(args)


def test_a_text_of_several_lines_stands_as_one() -> None:
    text = editable_yaml({"path": "/Makefile", "content": "all:\n\tmake it  \n\n# done\n"})
    assert text == "path: /Makefile\ncontent: |\n  all:\n  \tmake it  \n\n  # done\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path: /a\ncontent: 'x", "line 2: not valid YAML"),
        ("path: /a\npath: /b", "line 2: duplicate key 'path'"),
        ("- a", "names with values"),
        ("", "names with values"),
        ("just text", "names with values"),
        ("a: !!python/object:os.system x", "line 1: the YAML tag"),
        ("a: &a [*a]", "line 1:"),
        ('{"a": ', "line 1:"),
        ("[" * 100_000, "nested too deeply"),
        ('a: "\\ud800"', "not text"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_arguments(text)
    assert said in raised.value.message


def test_json_is_read_too_and_a_comment_is_none_of_the_arguments() -> None:
    assert read_arguments('{"a": 1e5}') == {"a": 1e5}
    assert read_arguments("{a: b}") == {"a": "b"}
    assert read_arguments("# a3: write\na: 1\n") == {"a": 1}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def as_sent(fields: list[Field]) -> dict[str, str]:
    """What a browser sends of a form that nobody touched: with line ends of its own."""
    sent = {PREFIX + one.name: one.value.replace("\r\n", "\n").replace("\n", "\r\n") for one in fields}
    return sent | {OMIT_PREFIX + one.name: "on" for one in fields if one.omitted}


@pytest.mark.parametrize(
    ("declared", "value", "kind"),
    [
        ({"type": "string"}, "plain", "text"),
        ({"type": "string"}, "", "text"),
        ({"type": "string"}, "\nbegins with a line end\n", "text"),
        ({"type": "string"}, "tab\there", "text"),
        ({"type": "string"}, "windows\r\nline ends\r\n", "text"),
        # both kinds of line ends: no text field keeps them
        ({"type": "string"}, "mixed\r\nline\nends", "json"),
        ({"type": "string"}, "half\rway", "json"),
        ({"type": "string"}, "\x1b[2J\u202e\u200b", "json"),
        # what a model sent against the schema stays as it is until somebody changes it
        ({"type": "string"}, 7, "json"),
        ({"type": "integer"}, 0, "number"),
        ({"type": "integer"}, 1, "number"),
        ({"type": "number"}, -1.5e30, "number"),
        ({"type": "number"}, True, "json"),
        ({"type": "boolean"}, True, "boolean"),
        ({"type": "boolean"}, False, "boolean"),
        ({"enum": ["a", "b", None, 3]}, "b", "choice"),
        ({"enum": ["a", "b", None, 3]}, None, "choice"),
        ({"enum": ["a", "b"]}, "c", "json"),
        ({"type": "array", "items": {"type": "string"}}, ["x", "\u202e"], "yaml"),
        ({"type": "object"}, {"a": {"b": [1, None]}}, "yaml"),
        ({"type": ["string", "null"]}, None, "json"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "x", "json"),
        ({}, {"free": "form"}, "yaml"),
    ],
)
def test_an_untouched_form_means_the_same_arguments(declared: dict[str, Any], value: Any, kind: str) -> None:
    args = {"it": value}
    fields = fields_of(schema(it=declared), args)
    assert [one.kind for one in fields] == [kind]
    found, sent = read_fields(schema(it=declared), args, as_sent(fields))
    assert json.dumps(found) == json.dumps(args)
    assert not any(one.problem for one in sent)


def test_arguments_that_the_schema_does_not_know_are_in_the_form_too() -> None:
    args = {"it": "x", "more": [1]}
    fields = fields_of(ANYTHING, args)
    assert [one.name for one in fields] == ["it", "more"]
    assert read_fields(ANYTHING, args, as_sent(fields))[0] == args


def test_an_optional_argument_can_be_left_out_and_put_in() -> None:
    known = {"type": "object", "properties": {"timeout": {"type": "integer", "default": 60}}}
    (absent,) = fields_of(known, {})
    assert (absent.omitted, absent.value) == (True, "60")
    assert read_fields(known, {}, as_sent([absent]))[0] == {}
    assert read_fields(known, {}, {PREFIX + "timeout": "5"})[0] == {"timeout": 5}
    assert read_fields(known, {"timeout": 5}, {PREFIX + "timeout": "5", OMIT_PREFIX + "timeout": "on"})[0] == {}


def test_a_required_argument_cannot_be_left_out() -> None:
    known = schema(it={"type": "string"})
    assert read_fields(known, {"it": "x"}, {PREFIX + "it": "y", OMIT_PREFIX + "it": "on"})[0] == {"it": "y"}


@pytest.mark.parametrize(
    ("declared", "typed", "problem"),
    [
        ({"type": "integer"}, "", "a value is needed here"),
        ({"type": "integer"}, "seven", "that is not JSON"),
        ({"type": "integer"}, "true", "this is not a number"),
        ({"type": "integer"}, '"7"', "this is not a number"),
        ({"type": "number"}, "NaN", "that is not JSON"),
        ({"type": "array"}, "[1,", "line 1: not valid YAML"),
        ({"type": "array"}, "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_said_at_its_field_and_stays_in_it(
    declared: dict[str, Any], typed: str, problem: str
) -> None:
    found, (field,) = read_fields(schema(it=declared), {}, {PREFIX + "it": typed})
    assert found == {}
    assert field.problem.startswith(problem)
    assert field.value == typed


@pytest.mark.parametrize("text", ["", "[]", "null", '"x"', "{", '{"a": NaN}', '{"a": "\\ud800"}'])
def test_raw_arguments_are_an_object(text: str) -> None:
    with pytest.raises(UsageError):
        read_object(text)


@pytest.mark.parametrize(
    "value", [{"a": "\u202e\x00\x1b\x7f\u200b\U000e0041\n\t\\u0041"}, {"ä": ["ö", "🙂", "\u2028"]}]
)
def test_json_to_be_edited_hides_nothing_and_reads_back_the_same(value: dict[str, Any]) -> None:
    text = editable_json(value)
    assert not set(text) & set("\u202e\x00\x1b\x7f\u200b\U000e0041\u2028\t")
    assert read_object(text) == value


def test_a_problem_of_the_schema_is_told_at_its_field() -> None:
    fields = fields_of(schema(a={"type": "string"}, ab={"type": "array"}), {"a": "x", "ab": [1]})
    problems = ["ab.0: 1 is not of type 'string'", "'c' is a required property"]
    shown, told = with_problems(fields, problems)
    assert [one.problem for one in shown] == ["", "ab.0: 1 is not of type 'string'"]
    assert told == problems


@pytest.mark.parametrize("typed", ["1", "one", "[1, 2]", "a: b", "- 1"])
def test_an_argument_that_was_added_to_the_text_is_read_from_the_form(typed: str) -> None:
    found, (_, added) = read_fields(
        schema(it={"type": "string"}), {"it": "x"}, {PREFIX + "it": "x", PREFIX + "more": typed}
    )
    assert found == {"it": "x", "more": yaml.safe_load(typed)}
    assert (added.name, added.value, added.problem) == ("more", typed, "")
