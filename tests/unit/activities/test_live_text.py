"""The end of an answer while it is written."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
)

from llm_do_temporal.activities.models.live_text import AnswerTail
from llm_do_temporal.messages.sizes import LIVE_TEXT_CHARS


@pytest.mark.parametrize(
    ("begun", "shown"),
    [
        # what a model has written so far is seldom JSON
        ("{", "read_file {"),
        ('{"path": "/a', 'read_file {"path": "/a'),
        ("no JSON", "read_file no JSON"),
        (None, "read_file "),
        ("", "read_file "),
        ({"path": "/a.txt"}, 'read_file {"path":"/a.txt"}'),
    ],
)
def test_arguments_are_shown_as_far_as_they_are_written(begun: Any, shown: str) -> None:
    tail = AnswerTail(attempt=1)
    tail.take(PartStartEvent(index=0, part=ToolCallPart("read_file", begun)))
    told = tail.live_text()
    assert (told.text, told.part) == (shown, "tool-call")
    if isinstance(begun, str):
        tail.take(PartDeltaEvent(index=0, delta=ToolCallPartDelta(args_delta="…")))
        assert tail.live_text().text == f"{shown}…"


def test_the_tail_says_how_much_of_it_is_text_of_the_part_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = AnswerTail(attempt=1)
    counts: list[tuple[str, int, int]] = []
    parts = [ThinkingPart("hm"), TextPart("one"), ToolCallPart("t", "{}"), TextPart("two")]
    for number, part in enumerate(parts):
        tail.take(PartStartEvent(index=number, part=part))
        tail.take(PartDeltaEvent(index=number, delta=TextPartDelta(content_delta="!")))
        told = tail.live_text()
        counts.append((told.part, told.said, told.part_chars))
    assert counts == [("thinking", 0, 3), ("text", 4, 4), ("tool-call", 4, 5), ("text", 8, 4)]
    tail.take(PartDeltaEvent(index=3, delta=TextPartDelta(content_delta="x" * 10_000)))
    assert tail.live_text().part_chars == len(tail.live_text().text) == LIVE_TEXT_CHARS
    monkeypatch.setenv("TEST_API_KEY", "sk-0123456789abcdef0123")
    tail.take(PartDeltaEvent(index=3, delta=TextPartDelta(content_delta=" sk-0123456789abcdef0123 ")))
    assert "sk-0123" not in tail.live_text().text
    assert tail.live_text().part_chars == 0
