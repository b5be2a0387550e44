"""The end of an answer while it is written."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, ToolCallPart, ToolCallPartDelta

from llm_do_temporal.activities.models.live_text import AnswerTail


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
