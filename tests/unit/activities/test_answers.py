"""The form and the price of an answer before it enters a history."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestParameters, ModelResolutionContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json

from llm_do_temporal.activities.models.answers import (
    odd_number,
    plain_name,
    storable,
    with_plain_calls,
    with_result,
    with_thoughts,
    with_whole_characters,
)
from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.activities.models.streams import StreamedCalls
from llm_do_temporal.activities.models.usage import priced
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.sizes import MAX_ANSWER_BYTES, MAX_CALL_BYTES, OVERSIZED
from llm_do_temporal.policy.models import ModelAlias, serving_id

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


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"points": {"type": "integer"}},
    "required": ["points"],
    "additionalProperties": False,
}
RESULT = ToolDefinition(name="final_result", parameters_json_schema=SCHEMA)
ASKED = ModelRequestParameters(output_tools=[RESULT], allow_text_output=False)


def calls(*parts: ModelResponsePart, asked: ModelRequestParameters = ASKED) -> list[Any]:
    answer = with_result(ModelResponse(parts=list(parts)), asked)
    assert answer.parts[: len(parts)] == list(parts), "what the model wrote stays"
    return [part.args for part in answer.parts[len(parts) :] if isinstance(part, ToolCallPart)]


@pytest.mark.parametrize(
    "text",
    [
        '{"points": 4}',
        ' \n{"points": 4}\n',
        '```json\n{"points": 4}\n```',
        'Here you are:\n\n```\n{\n  "points": 4\n}\n```\nAnything else?',
        'The result is {"points": 4}. Good luck!',
        # the same twice is one; what does not fit is none
        '```json\n{"points": 4}\n```\n```json\n{"points": 4}\n```',
        '```json\n{"score": 9}\n```\n```json\n{"points": 4}\n```',
    ],
)
def test_one_object_that_fits_is_the_result(text: str) -> None:
    assert calls(ThinkingPart("hm"), TextPart(text)) == [{"points": 4}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would say four points.",
        '{"points": "many"}',
        '{"points": 4, "why": "because"}',
        '[{"points": 4}]',
        '{"points": 4',
        '{"points": NaN}',
        '{"points": 4} or {"points": 5}',
        # which of two is meant nobody knows
        '```json\n{"points": 4}\n```\n```json\n{"points": 5}\n```',
        "{" * 100_000,
    ],
)
def test_anything_else_is_left_to_be_asked_for_again(text: str) -> None:
    assert calls(TextPart(text)) == []


def test_an_answer_that_calls_something_or_may_be_text_is_what_it_is() -> None:
    text = TextPart('{"points": 4}')
    assert calls(text, ToolCallPart("read_file", {})) == []
    assert calls(text, asked=ModelRequestParameters()) == []
    assert calls(text, asked=ModelRequestParameters(output_tools=[RESULT], allow_text_output=True)) == []


def answer(**more: Any) -> ModelResponse:
    usage = RequestUsage(input_tokens=900, output_tokens=100)
    known: dict[str, Any] = {"usage": usage, "model_name": "gpt-4o", "provider_name": "openai"}
    return ModelResponse(parts=[], **{**known, **more})


def test_a_known_model_has_a_price() -> None:
    assert priced(answer()).usage.cost == Decimal("0.00325")


def test_the_price_is_that_of_the_model_wherever_it_is_served() -> None:
    assert priced(answer(provider_url="http://127.0.0.1:9/v1")).usage.cost == Decimal("0.00325")


@pytest.mark.parametrize(
    "unknown",
    [
        {"model_name": "gpt-of-next-year"},
        {"model_name": None},
        {"provider_name": "offline"},
        {"usage": RequestUsage()},
        {"usage": RequestUsage(input_tokens=10, cache_read_tokens=900)},
    ],
)
def test_what_is_not_known_has_none(unknown: dict[str, Any]) -> None:
    assert priced(answer(**unknown)).usage.cost is None


def test_what_the_provider_reported_is_kept() -> None:
    usage = RequestUsage(input_tokens=900, cost=Decimal("0.5"))
    assert priced(answer(usage=usage)).usage.cost == Decimal("0.5")


def test_a_price_list_that_breaks_fails_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: ModelResponse) -> Any:
        raise RuntimeError("no list")

    monkeypatch.setattr(ModelResponse, "cost", broken)
    assert priced(answer()).usage.cost is None


async def model_of(**alias: Any) -> Any:
    given = ModelAlias.model_validate(alias)
    context: ModelResolutionContext[Any] = None  # pyright: ignore[reportAssignmentType] - the builder asks it nothing
    return await build_model(context, serving_id({"own": given}, "own"))


OWN: dict[str, Any] = {"model": "openai-chat:gpt-4o", "base_url": "http://127.0.0.1:9/v1"}


async def test_a_price_of_the_workshop_holds_whatever_the_list_and_the_answer_say() -> None:
    own = await model_of(**OWN, price={"input": 1, "output": 20})
    usage = RequestUsage(input_tokens=900, output_tokens=100, cost=Decimal(7))
    assert priced(answer(usage=usage), own).usage.cost == Decimal("0.0029")


async def test_what_a_cache_held_has_a_price_of_its_own() -> None:
    own = await model_of(**OWN, price={"input": 10, "output": 20, "cache_read": 1, "cache_write": 12.5})
    usage = RequestUsage(input_tokens=1_000, output_tokens=0, cache_read_tokens=600, cache_write_tokens=100)
    assert priced(answer(usage=usage), own).usage.cost == Decimal(300 * 10 + 600 * 1 + 100 * 12.5) / 1_000_000


async def test_a_server_of_ones_own_may_be_free() -> None:
    assert priced(answer(), await model_of(**OWN, price="free")).usage.cost == 0


async def test_an_offline_model_is_free_unless_the_workshop_says_otherwise() -> None:
    assert priced(answer(), await model_of(model="offline:echo")).usage.cost == 0
    dear = await model_of(model="offline:echo", price={"input": 0, "output": 10})
    assert priced(answer(), dear).usage.cost == Decimal("0.001")


async def test_what_went_through_a_batch_costs_what_the_list_says_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing that the answer says of how it was served counts."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    asked = await build_model(cast("ModelResolutionContext[Any]", None), "openai:gpt-4o")
    served = answer(provider_details={"processing": "batch"})
    assert priced(served, asked).usage.cost == Decimal("0.00325")
    assert priced(served, asked, batched=True).usage.cost == Decimal("0.001625")


def test_without_a_price_for_batches_the_usual_one_counts() -> None:
    known = answer(model_name="llama-3.3-70b-versatile", provider_name="groq")
    usual = priced(known).usage.cost
    assert usual is not None
    assert priced(known, batched=True).usage.cost == usual
