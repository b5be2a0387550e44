"""Messages of a conversation as spans write them down."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from llm_do_temporal.telemetry.contents import (
    as_text,
    input_messages,
    new_messages,
    output_message,
    request_messages,
    scrubbed,
)

DATA = b"\xfb\xff\x00 picture"
BINARY = {"kind": "binary", "data": base64.urlsafe_b64encode(DATA).decode(), "media_type": "image/png"}
FACTS = {"media_type": "image/png", "bytes": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}


def test_only_what_came_after_the_last_answer_is_new() -> None:
    first: dict[str, Any] = {"kind": "request", "parts": []}
    answer: dict[str, Any] = {"kind": "response", "parts": []}
    second: dict[str, Any] = {"kind": "request", "parts": [{}]}
    assert new_messages([first]) == [first]
    assert new_messages([first, answer, second]) == [second]
    assert new_messages([first, answer, first, answer, second]) == [second]


def test_what_the_loop_notes_down_is_told_as_text_or_not_at_all() -> None:
    parts: list[dict[str, Any]] = [
        {"part_kind": "retry-feedback", "content": "Please return text."},
        {"part_kind": "retry-feedback", "content": [{"type": "missing", "loc": ["n"]}]},
        {"part_kind": "tool-availability-delta", "tools_added": ["helper", "other"]},
        {"part_kind": "model-settings-delta", "settings": {"thinking": "high"}},
    ]
    told = input_messages([{"kind": "request", "parts": parts}], binary=False)
    assert [(one["role"], one["parts"][0]["content"]) for one in told] == [
        ("user", "Please return text."),
        ("user", '[{"type": "missing", "loc": ["n"]}]'),
        ("system", "New tools: helper, other"),
    ]


@pytest.mark.parametrize("binary", [False, True])
def test_a_file_inside_a_tool_result_is_reduced_to_its_facts_unless_asked_for(binary: bool) -> None:
    shown = scrubbed({"files": [BINARY], "n": 1}, binary=binary)
    (file,) = shown["files"]
    assert FACTS.items() <= file.items()
    assert ("data" in file) is binary
    assert not binary or base64.b64decode(file["data"]) == DATA


@pytest.mark.parametrize("form", ["", "?as=text"])
def test_a_reference_to_an_attachment_is_a_name_and_a_digest(form: str) -> None:
    url = f"llmdo-blob:sha256/abc{form}#%2Fdeck%20one.pdf"
    part = {
        "part_kind": "user-prompt",
        "content": ["Look.", {"kind": "document-url", "url": url, "media_type": "application/pdf"}, BINARY],
    }
    (message,) = input_messages([{"parts": [part]}], binary=False)
    text, reference, file = message["parts"]
    assert text == {"type": "text", "content": "Look."}
    assert reference == {"type": "file", "name": "/deck one.pdf", "media_type": "application/pdf", "sha256": "abc"}
    assert "data" not in file


def test_roles_follow_from_the_parts() -> None:
    parts = [
        {"part_kind": "system-prompt", "content": "Be kind."},
        {"part_kind": "user-prompt", "content": "Hi."},
        {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "content": {"n": 1}},
        {"part_kind": "retry-prompt", "tool_name": "t", "tool_call_id": "c", "content": "No."},
        {"part_kind": "retry-prompt", "content": "Answer in JSON."},
    ]
    assert [message["role"] for message in input_messages([{"parts": parts}], binary=False)] == [
        "system",
        "user",
        "tool",
        "tool",
        "user",
    ]


def test_an_answer_is_text_thought_and_calls() -> None:
    parts = [
        {"part_kind": "thinking", "content": "Hm."},
        {"part_kind": "text", "content": "Yes."},
        {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": '{"n": 1}'},
        {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "d", "args": "not JSON"},
        {"part_kind": "file", "content": BINARY},
    ]
    answer = output_message({"parts": parts, "finish_reason": "stop"}, binary=False)
    assert [part["type"] for part in answer["parts"]] == ["reasoning", "text", "tool_call", "tool_call", "file"]
    assert [part["arguments"] for part in answer["parts"][2:4]] == [{"n": 1}, "not JSON"]
    assert "data" not in answer["parts"][4]["content"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"a": "\\ud800"}', '{"a": "?"}'),
        ("[" * 100_000, "[" * 100_000),
        ("[" * 600 + "]" * 600, "[" * 100 + '"(too deep to be shown)"' + "]" * 100),
    ],
    ids=["half", "too deep for JSON", "too deep for Python"],
)
def test_arguments_that_no_span_can_hold_are_told_as_far_as_they_can_be(arguments: str, told: str) -> None:
    call = {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": arguments}
    (part,) = output_message({"parts": [call]}, binary=False)["parts"]
    assert as_text(part["arguments"]) == told


def test_a_request_that_refers_to_an_answer_carries_what_comes_after_it() -> None:
    own, after, more = ({"kind": "request", "parts": [name]} for name in ("own", "after", "more"))
    settings = {"llm_do_conversation": {"number": 2, "after": 1, "answer": "1.1", "messages": [after]}}
    assert request_messages({"messages": [own, more], "model_settings": settings}) == [after, more]
    assert request_messages({"messages": [own, "damaged"], "model_settings": None}) == [own]
    assert request_messages({}) == []
