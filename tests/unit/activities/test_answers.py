"""What a model's answer must be before it enters a history."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse, TextPart, ThinkingPart, ToolCallPart

from llm_do_temporal.activities.models.answers import storable, with_whole_characters
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.sizes import MAX_ANSWER_BYTES, MAX_CALL_BYTES, OVERSIZED

UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def arguments(args: Any, *, tool: str = "write_file", whole: tuple[str, ...] = ()) -> Any:
    answer = with_whole_characters(ModelResponse(parts=[ToolCallPart(tool, args, tool_call_id="1")]))
    (part,) = storable(answer, whole=whole).parts
    assert isinstance(part, ToolCallPart)
    return part.args


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        # an ordinary answer stays what it is, as text or as a value
        ('{"path": "/a"}', '{"path": "/a"}'),
        ({"path": "/ä\U0001f600", "n": [1, 2.5, None, True]}, {"path": "/ä\U0001f600", "n": [1, 2.5, None, True]}),
        (None, None),
        # half characters, wherever they hide
        ({"a\ud800": ["\udfff", {"b": "x\ud800y"}]}, {f"a{UNKNOWN}": [UNKNOWN, {"b": f"x{UNKNOWN}y"}]}),
        ('{"path": "\ud800"}', f'{{"path": "{UNKNOWN}"}}'),
        # too large, as text and as a value
        ({"content": "x" * MAX_CALL_BYTES}, {OVERSIZED: MAX_CALL_BYTES + 14}),
        ('"' + "ä" * MAX_CALL_BYTES + '"', {OVERSIZED: 2 * MAX_CALL_BYTES + 2}),
    ],
)
def test_arguments_are_kept_cleaned_or_replaced_by_their_size(args: Any, kept: Any) -> None:
    assert arguments(args) == kept


def test_a_structured_result_may_be_larger_than_a_call() -> None:
    args = {"text": "x" * MAX_CALL_BYTES}
    assert arguments(args, tool="final_result", whole=("final_result",)) == args


def test_texts_are_cleaned_too_and_files_stay_as_they_are() -> None:
    file = FilePart(BinaryContent(b"\xed\xa0\x80", media_type="image/png"))
    answer = with_whole_characters(ModelResponse(parts=[TextPart("a\ud800"), ThinkingPart("b\ud800"), file]))
    contents = [getattr(part, "content", None) for part in answer.parts]
    assert contents == [f"a{UNKNOWN}", f"b{UNKNOWN}", file.content]


def test_only_the_calls_that_are_too_large_are_replaced() -> None:
    small, large = {"n": 1}, {"content": "x" * MAX_CALL_BYTES}
    parts = [TextPart("Now."), ToolCallPart("a", small), ToolCallPart("b", large)]
    text, first, second = storable(ModelResponse(parts=parts)).parts
    assert isinstance(text, TextPart)
    assert isinstance(first, ToolCallPart)
    assert isinstance(second, ToolCallPart)
    assert first.args == small
    assert set(second.args_as_dict()) == {OVERSIZED}


def test_of_calls_that_are_too_large_together_the_first_ones_are_kept() -> None:
    sizes = [300_000, 300_000, 500_000, 300_000, 100_000]
    parts = [ToolCallPart("write", {"content": "x" * size}) for size in sizes]
    answer = storable(ModelResponse(parts=parts))
    kept = [part.args_as_dict() for part in answer.parts if isinstance(part, ToolCallPart)]
    assert [len(args.get("content", "")) for args in kept] == [300_000, 300_000, 0, 300_000, 100_000]
    assert kept[2] == {OVERSIZED: 500_014}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ModelResponse(parts=[TextPart("x" * MAX_ANSWER_BYTES)]), f"at most {MAX_ANSWER_BYTES} can be kept"),
        (ModelResponse(parts=[ToolCallPart("t", nested(400))]), "the model's answer cannot be kept"),
    ],
)
def test_an_answer_that_no_history_can_hold_is_final(answer: ModelResponse, message: str) -> None:
    with pytest.raises(ModelFailed, match=message):
        storable(answer)
