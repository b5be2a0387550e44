"""Names, ids, arguments and pieces of tool calls, before an answer enters a history."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_core import from_json

from llm_do_temporal.activities.models.plain_calls import odd_number, plain_name, with_plain_calls
from llm_do_temporal.activities.models.streamed_calls import StreamedCalls
from llm_do_temporal.activities.models.written_thoughts import with_thoughts

TOOLS = {"read_file", "write_file", "git_log"}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("read_file", "read_file"),
        ("functions.read_file", "read_file"),
        ("default_api:read_file", "read_file"),
        ("read_file<|channel|>commentary", "read_file"),
        ("assistant<|channel|>commentary to=functions.read_file", "read_file"),
        ("git.log", "git_log"),
        ("read_file\n", "read_file"),
        # two tools, or none, are no tool
        ("read_file.write_file", "read_file_write_file"),
        ("read_filewrite_file", "read_filewrite_file"),
        ("rm -rf /", "rm_-rf__"),
        ("x" * 70, "x" * 64),
        ("", "unnamed"),
    ],
)
def test_a_name_is_that_of_the_tool_it_means(given: str, name: str) -> None:
    assert plain_name(given, TOOLS) == name


def test_a_name_that_is_cut_becomes_no_offered_tool() -> None:
    assert plain_name("x" * 70, {"x" * 64}) == f"no_{'x' * 61}"


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**64, -(2**63) - 1, 10**400, {"a": [{"b": float("nan")}]}]
)
def test_a_number_that_json_does_not_have_is_found(value: Any) -> None:
    assert odd_number(value) is not None


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 1.7e308, True, None, "NaN", {"a": [0, -0.0]}])
def test_other_values_are_fine(value: Any) -> None:
    assert odd_number(value) is None


@pytest.mark.parametrize(
    "args", ['{"n": NaN}', '{"n": 1e999}', '{"n": -Infinity, "a": "\ud800"}', '{"n": ' + "9" * 400 + "}"]
)
def test_what_is_kept_of_such_arguments_is_no_json(args: str) -> None:
    answer = ModelResponse(parts=[ToolCallPart("read_file", args)])
    (part,) = with_plain_calls(answer, ModelRequestParameters(), ()).parts
    assert isinstance(part, ToolCallPart)
    assert isinstance(part.args, str)
    assert part.args.startswith("Not carried out: the arguments hold")
    with pytest.raises(ValueError, match="expected"):
        from_json(part.args)


def test_ids_are_unique_in_the_conversation() -> None:
    parts = [ToolCallPart("read_file", {}, tool_call_id=own, id="fc_1") for own in ("a", "a", "a_2", "b:c", "b_c")]
    kept = with_plain_calls(ModelResponse(parts=parts), ModelRequestParameters(), {"a", "b_c_2"}).parts
    ids = [part.tool_call_id for part in kept if isinstance(part, ToolCallPart)]
    assert ids == ["a_2", "a_3", "a_2_2", "b_c", "b_c_3"]
    assert [part.id for part in kept if isinstance(part, ToolCallPart)] == ["fc_1", None, None, None, None]


Piece = tuple[str | None, str | None, str | None]
"""Name, arguments and id of a piece of a stream."""


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # two calls with one index
        (
            [("a", "", "1"), (None, "{}", None), ("b", "", "2"), (None, "{}", None)],
            [("a", "{}", "1"), ("b", "{}", "2")],
        ),
        ([("a", "{}", "1"), ("a", '{"x":1}', "1")], [("a", "{}", "1"), ("a", '{"x":1}', "1")]),
        ([("a", "", "1"), ("b", "", "2")], [("a", "", "1"), ("b", "", "2")]),
        # one call whose name, or id, comes with each piece
        ([("a", '{"x"', "1"), ("a", ":1}", "1"), ("a", "", "1")], [("a", '{"x":1}', "1")]),
        ([("a", '{"x"', "1"), ("a", ":1}", "2")], [("a", '{"x":1}', "1")]),
        ([("a", '{"x"', "1"), (None, ":1}", "2")], [("a", '{"x":1}', "1")]),
        # one call whose name comes in pieces
        ([("read_", None, "1"), ("file", "{}", None)], [("read_file", "{}", "1")]),
    ],
)
def test_pieces_of_one_index_are_the_calls_that_were_sent(pieces: list[Piece], calls: list[Piece]) -> None:
    sent = StreamedCalls()
    name, args, own = pieces[0]
    sent.take(PartStartEvent(index=1, part=ToolCallPart(name or "", args, tool_call_id=own or "")))
    for name, args, own in pieces[1:]:
        delta = ToolCallPartDelta(tool_name_delta=name, args_delta=args, tool_call_id=own)
        sent.take(PartDeltaEvent(index=1, delta=delta))
    joined = "".join(args or "" for _, args, _ in pieces)
    answer = ModelResponse(parts=[TextPart("Now."), ToolCallPart("joined", joined)])
    text, *parts = sent.parted(answer).parts
    assert text == answer.parts[0]
    assert [(part.tool_name, part.args, part.tool_call_id) for part in parts if isinstance(part, ToolCallPart)] == calls


@pytest.mark.parametrize(
    ("part", "thoughts", "texts"),
    [
        (TextPart("<think>a</think>b<think>c</think>d"), ["a", "c"], ["b", "d"]),
        (TextPart("Say <think>a</think> b."), ["a"], ["Say ", "b."]),
        (TextPart("<think>never ended"), ["never ended"], []),
        (TextPart("[THINK]a[/THINK]b"), ["a"], ["b"]),
        (ThinkingPart("a</think>\n\nb", id="content"), ["a"], ["b"]),
        (TextPart("<THINK>a</THINK>b"), ["a"], ["b"]),
        (TextPart("<seed:think>a</seed:think>b"), ["a"], ["b"]),
        (TextPart("◁think▷a◁/think▷b"), ["a"], ["b"]),
        (TextPart("<|begin_of_thought|>a<|end_of_thought|>b"), ["a"], ["b"]),
        (
            TextPart("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b"),
            ["a"],
            ["b"],
        ),
        (TextPart("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b"), ["a"], ["b"]),
        (TextPart("<think>a <think>b</think> c</think>d"), ["a <think>b</think> c"], ["d"]),
        (TextPart("<think>a <think> b</think>c"), ["a <think> b"], ["c"]),
        (TextPart("<think>a ```x``` b</think>c"), ["a ```x``` b"], ["c"]),
        (TextPart("<think>a</thinking>b</think>c"), ["a</thinking>b"], ["c"]),
        # a text about tags
        (TextPart("So:\n```\n<think>x</think>\n```\nDone."), [], ["So:\n```\n<think>x</think>\n```\nDone."]),
        (TextPart("<reasoning>a</reasoning>b"), [], ["<reasoning>a</reasoning>b"]),
        (TextPart("Write `<think>` first."), [], ["Write `<think>` first."]),
        (TextPart("The <think> tag begins."), [], ["The <think> tag begins."]),
        (TextPart("\n\nDone."), [], ["\n\nDone."]),
    ],
)
def test_thoughts_leave_the_text(part: ModelResponsePart, thoughts: list[str], texts: list[str]) -> None:
    parts = with_thoughts(ModelResponse(parts=[part]), TestModel()).parts
    assert [one.content for one in parts if isinstance(one, ThinkingPart)] == thoughts
    assert [one.content for one in parts if isinstance(one, TextPart)] == texts


def test_a_text_with_a_million_tags_is_split_in_one_pass() -> None:
    parts = with_thoughts(ModelResponse(parts=[TextPart("<think>a</think>b" * 50_000)]), TestModel()).parts
    assert len(parts) == 100_000
