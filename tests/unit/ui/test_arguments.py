"""Arguments as YAML that people edit: text stays text, nothing hides, and what is untouched means the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.errors import UsageError
from llm_do_temporal.ui.content.arguments import editable_yaml, read_arguments

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
