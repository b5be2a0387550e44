"""Values of doors: what is JSON to everybody, and the page that describes them."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from llm_do_temporal.doors.files import sent_files
from llm_do_temporal.doors.http.app import build_api
from llm_do_temporal.doors.http.reference import POLICY, reference_page
from llm_do_temporal.doors.values import SentFile, Start
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import MAX_DEPTH, check_json


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [None, 1, 10**400, 1.5, "ä𝄞", [1, {"a": [None, True]}], nested(MAX_DEPTH - 1), b"\xff"]
)
def test_values_of_json_are_taken(value: Any) -> None:
    check_json(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "no number of JSON"),
        ({"a": [1, float("-inf")]}, "no number of JSON"),
        ("\ud800", "half a character"),
        ({"a": {"\udfff": 1}}, "half a character"),
        (nested(MAX_DEPTH), "more than 100 levels"),
        (nested(100_000), "more than 100 levels"),
    ],
    ids=["a number", "inside", "a text", "a key", "levels", "many levels"],
)
def test_what_nobody_else_could_read_is_refused_in_words(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_json(value)
    with pytest.raises(ValidationError, match=reason):
        Start(worker="notes", input=value)


@pytest.mark.parametrize(
    ("content", "kept"), [("", b""), ("aGVsbG8=", b"hello"), ("+/8=", b"\xfb\xff"), (b"YQ==", b"a")]
)
def test_a_file_is_base64_and_says_so(content: str | bytes, kept: bytes) -> None:
    file = SentFile.model_validate({"name": "a.txt", "content": content})
    assert file.content == kept
    assert SentFile.model_validate_json(file.model_dump_json()) == file


ODD_BASE64 = {
    "signs of another alphabet": "aGVs-_-_bG8=",
    "the alphabet for addresses": "-_8=",
    "signs of none": "!!!!YWJj",
    "something after the padding": "YWJj====ZGVm",
    "two of them": "YQ==YQ==",
    "padding for nothing": "YWJj====",
    "too much padding": "YWJj=",
    "too little": "YWJ",
    "nothing but padding": "====",
    "bits after the end": "YR==",
    "a line break at the end": "YWJj\n",
    "a line break inside": "YWJj\r\nZGVm",
    "spaces": " YWJj",
    "other letters": "YWJä",
    "bytes": b"YWJj====ZGVm",
}


@pytest.mark.parametrize("content", ODD_BASE64.values(), ids=ODD_BASE64.keys())
def test_a_file_that_is_not_plain_base64_is_refused_by_name(content: str | bytes) -> None:
    odd = {"name": "deck.txt", "content": content}
    for place, start in (
        ("attachments.0", {"attachments": [odd]}),
        ("items.0.attachments.0", {"items": [{"name": "one", "attachments": [odd]}]}),
    ):
        with pytest.raises(UsageError, match=r"the content of 'deck\.txt' is not base64") as refused:
            Start.of({"worker": "notes"} | start)
        assert refused.value.message.startswith(f"{place}.content: ")
    if isinstance(content, str):
        with pytest.raises(UsageError, match=r"'deck\.txt' cannot be attached: content: .*is not base64"):
            sent_files([("deck.txt", content)])


def test_a_file_that_is_no_text_is_refused_as_that() -> None:
    with pytest.raises(UsageError, match=r"attachments.0.content: Input should be a valid bytes"):
        Start.of({"worker": "notes", "attachments": [{"name": "deck.txt", "content": 7}]})


def document() -> dict[str, Any]:
    return build_api(cast("Any", SimpleNamespace()), cast("Any", SimpleNamespace())).openapi()


def test_the_page_has_every_route_and_value_and_loads_and_runs_nothing() -> None:
    told = document()
    page = reference_page(told)
    for path, methods in told["paths"].items():
        for method, route in methods.items():
            assert f'<article id="{route["operationId"]}">' in page
            assert f'<span class="method">{method.upper()}</span> <span class="path">{path}</span>' in page
    names = set(re.findall(r'id="value-([^"]+)"', page))
    assert names == set(told["components"]["schemas"])
    assert set(re.findall(r'href="#value-([^"]+)"', page)) <= names
    assert set(re.findall(r'href="([^#][^"]*)"', page)) == {"openapi.json"}
    assert not re.search(r"<script|<link|<img|<iframe|src=|style=|@import|url\(|\son\w+=", page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in POLICY


def test_every_route_and_value_is_described() -> None:
    told = document()
    routes = [route for methods in told["paths"].values() for route in methods.values()]
    assert [route["operationId"] for route in routes if not route.get("description")] == []
    assert told["openapi"].startswith("3.1.")


def test_words_of_a_document_are_text_on_the_page() -> None:
    told = document()
    told["info"]["description"] = told["paths"]["/api/v1/runs"]["post"]["description"] = "<script>`<b>`</script>"
    page = reference_page(told)
    assert "<script>" not in page
    assert "&lt;script&gt;<code>&lt;b&gt;</code>" in page
