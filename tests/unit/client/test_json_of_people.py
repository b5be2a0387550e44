"""JSON that people, programs and models hand in is refused by one rule where a key stands twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from json import JSONDecodeError
from pathlib import Path

import pytest

from llm_do_temporal.cli import options
from llm_do_temporal.client.batches import items_of_lines
from llm_do_temporal.doors.http import requests
from llm_do_temporal.errors import UsageError
from llm_do_temporal.json_schema import read_value
from llm_do_temporal.messages.base import RepeatedKey, read_json
from llm_do_temporal.ui.content import forms

TWICE = '{"a": {"b": 1, "b": 2}}'


def read_body(text: str) -> object:
    """Value of the body of a request."""
    return requests.read_json(text.encode())


@pytest.mark.parametrize(
    ("read", "error", "words"),
    [
        (read_json, RepeatedKey, '^an object has the key "b" twice$'),
        (partial(options.read_json, option="--input"), UsageError, 'not JSON: an object has the key "b" twice$'),
        (read_body, JSONDecodeError, 'an object has the key "b" twice'),
        (forms.read_json, ValueError, 'that is not JSON: an object has the key "b" twice$'),
    ],
)
def test_a_key_that_stands_twice_is_named(read: Callable[[str], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read(TWICE)


def test_each_line_with_a_key_twice_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "ask.jsonl"
    file.write_text(f'{{"a": 1}}\n{TWICE}\n\n{TWICE}\n')
    with pytest.raises(UsageError) as raised:
        items_of_lines(file)
    said = 'the line is not JSON: an object has the key "b" twice'
    assert raised.value.message == f"{file}:2: {said}\n  {file}:4: {said}"


def test_what_a_model_wrote_as_text_with_a_key_twice_stays_text() -> None:
    value, problems = read_value({"type": "object"}, TWICE)
    assert value == TWICE
    assert problems


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "more than 100 levels"),
        ("[" * 101 + "]" * 101, "more than 100 levels"),
        ("[-Infinity]", "-Infinity is no number of JSON"),
        ("1e999", "inf is no number of JSON"),
        ("9" * 5_000, "digits"),
        ("{}{}", "Extra data"),
    ],
)
def test_what_no_other_reader_would_take_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_json(text)
