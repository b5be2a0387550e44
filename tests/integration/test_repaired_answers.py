"""Answers of gateways that client libraries refuse or mix up, over HTTP through their adapters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from temporalio.exceptions import ApplicationError

from tests.support.dialects.answers import Json, Raw
from tests.support.dialects.one_turn import ask_turns
from tests.support.dialects.server import Providers

TOOLS = ModelRequestParameters(
    function_tools=[ToolDefinition(name="write_file", parameters_json_schema={"type": "object"})]
)
RESPONSE: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
}
CHUNK: Json = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
BOTH = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    with Providers() as providers:
        yield providers


def raw(*events: Json, live: bool) -> Raw:
    if not live:
        return Raw(json.dumps(events[0]).encode(), "application/json")
    return Raw("".join(f"{_named(event)}data: {json.dumps(event)}\n\n" for event in events).encode())


def _named(event: Json) -> str:
    """Return the line with the name of an event, which the events of some protocols have."""
    return f"event: {event['type']}\n" if "type" in event else ""


async def answer_of(providers: Providers, adapter: str, name: str, sent: Raw, *, live: bool) -> ModelResponse:
    """Return the answer as it is kept; it was asked for once."""
    alias = providers.alias(adapter, name, sent)
    (answer,) = await ask_turns(alias, [ModelRequest(parts=[UserPromptPart("Go.")])], TOOLS, live=live)
    assert providers.scripts[name].streamed == [live]
    return answer


def message(text: str, own: str | None = "msg_1") -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": own, "role": "assistant", "status": "completed", "content": content}


def asked(own: str | None, call: str | None, path: str) -> Json:
    args = json.dumps({"path": path})
    return {"type": "function_call", "id": own, "call_id": call, "name": "write_file", "arguments": args}


def added(place: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def begun(place: int, item: Json) -> Json:
    return added(place, {**item, "arguments": "", "status": "in_progress"})


def done(place: int, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def text(delta: str, place: int = 0, own: str | None = "msg_1") -> Json:
    at = {"output_index": place, "content_index": 0, "item_id": own}
    return {"type": "response.output_text.delta", **at, "delta": delta, "logprobs": []}


def arguments(place: int, item: Json) -> Json:
    at = {"output_index": place, "item_id": item["id"]}
    return {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]}


def text_done(whole: str) -> Json:
    at = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    return {"type": "response.output_text.done", **at, "text": whole, "logprobs": []}


WHOLE, BEGUN = message("Hello world."), added(0, message(""))
TEXTS: dict[str, list[Json]] = {
    "as usual": [BEGUN, text("Hello "), text("world."), text_done("Hello world."), done(0, WHOLE)],
    "end in the item": [BEGUN, text("Hello"), done(0, WHOLE)],
    "end in the text": [BEGUN, text("Hello"), text_done("Hello world."), done(0, WHOLE)],
    "no delta": [BEGUN, done(0, WHOLE)],
    "item alone": [done(0, WHOLE)],
    "end of all alone": [],
    "other ids each time": [
        BEGUN,
        text("Hello ", 0, "x"),
        text("world.", 0, "y"),
        done(0, message("Hello world.", "z")),
    ],
    "no ids": [added(0, message("", None)), text("Hello world.", 0, None), done(0, message("Hello world.", None))],
    "another place": [BEGUN, text("Hello world.", 7), done(0, WHOLE)],
}


@pytest.mark.parametrize("form", TEXTS)
async def test_a_text_is_whole_and_comes_once_however_it_is_sent(providers: Providers, form: str) -> None:
    end = {"type": "response.completed", "response": {**RESPONSE, "status": "completed", "output": [WHOLE]}}
    sent = raw(*TEXTS[form], end, live=True)
    answer = await answer_of(providers, "responses", f"text-{form.replace(' ', '-')}", sent, live=True)
    assert answer.text == "Hello world."


A, B = asked("fc_1", "call_a", "/a"), asked("fc_1", "call_b", "/b")
N, M = asked(None, None, "/a"), asked(None, None, "/b")
CALLS: dict[str, list[Json]] = {
    "one after the other": [begun(0, A), arguments(0, A), done(0, A), begun(1, B), arguments(1, B), done(1, B)],
    "side by side": [begun(0, A), begun(1, B), arguments(0, A), arguments(1, B), done(0, A), done(1, B)],
    "at one place": [begun(0, A), arguments(0, A), done(0, A), begun(0, B), arguments(0, B), done(0, B)],
    "no deltas": [done(0, A), done(1, B)],
    "whole": [],
}


@pytest.mark.parametrize("form", CALLS)
async def test_calls_with_one_item_id_stay_apart(providers: Providers, form: str) -> None:
    live = form != "whole"
    whole = {**RESPONSE, "status": "completed", "output": [A, B]}
    events = [*CALLS[form], {"type": "response.completed", "response": whole}] if live else [whole]
    answer = await answer_of(
        providers, "responses", f"calls-{form.replace(' ', '-')}", raw(*events, live=live), live=live
    )
    assert paths(answer) == ["/a", "/b"]


def paths(answer: ModelResponse) -> list[Any]:
    """Return the argument of each call; no two have one id."""
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert len({call.tool_call_id for call in calls}) == len(calls)
    own = [call.id for call in calls if call.id]
    assert len(set(own)) == len(own)
    return [call.args_as_dict()["path"] for call in calls]


async def test_calls_without_ids_get_ids(providers: Providers) -> None:
    whole = {**RESPONSE, "status": "completed", "output": [N, M]}
    answer = await answer_of(providers, "responses", "null-r", raw(whole, live=False), live=False)
    assert paths(answer) == ["/a", "/b"]
    for number, (first, second) in enumerate([(None, None), (None, "x"), ("", None)]):
        calls = [
            {"id": own, "type": "function", "function": {"name": "write_file", "arguments": json.dumps({"path": path})}}
            for own, path in ((first, "/a"), (second, "/b"))
        ]
        said = {"role": "assistant", "content": None, "tool_calls": calls}
        body = {
            **CHUNK,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}],
        }
        answer = await answer_of(providers, "chat", f"null-c{number}", raw(body, live=False), live=False)
        assert paths(answer) == ["/a", "/b"]


@BOTH
@pytest.mark.parametrize("details", [{"reason": "new_limit"}, {"reason": None}, {}, None])
async def test_an_incomplete_answer_is_marked_whatever_its_reason(
    providers: Providers, live: bool, details: Json | None
) -> None:
    half = message("Half a")
    whole = {**RESPONSE, "status": "incomplete", "incomplete_details": details, "output": [half]}
    end = {"type": "response.incomplete", "response": whole}
    sent = raw(BEGUN, text("Half a"), done(0, half), end, live=True) if live else raw(whole, live=False)
    name = f"incomplete-{live}-{json.dumps(details).encode().hex()}"
    answer = await answer_of(providers, "responses", name, sent, live=live)
    assert (answer.text, answer.finish_reason) == ("Half a", "length")


@BOTH
@pytest.mark.parametrize("odd", [{"type": "hologram", "id": "h_1"}, {"type": "note", "content": "x"}, {"type": None}])
async def test_an_item_that_no_library_knows_takes_nothing_of_an_answer(
    providers: Providers, live: bool, odd: Json
) -> None:
    whole = {**RESPONSE, "status": "completed", "output": [odd, WHOLE]}
    events = [added(0, odd), done(0, odd), added(1, message("")), text("Hello world.", 1), done(1, WHOLE)]
    end = {"type": "response.completed", "response": whole}
    sent = raw(*events, end, live=True) if live else raw(whole, live=False)
    answer = await answer_of(providers, "responses", f"odd-{live}-{odd['type']}", sent, live=live)
    assert answer.text == "Hello world."


def chunk(*choices: tuple[int, str, str | None]) -> Json:
    listed = [
        {"index": index, "delta": {"role": "assistant", "content": said}, "finish_reason": end}
        for index, said, end in choices
    ]
    return {**CHUNK, "choices": listed}


CHOICES: dict[str, list[Json]] = {
    "in turn": [
        *(chunk((0, "Hello ", None)), chunk((1, "Bon", None)), chunk((0, "world.", None)), chunk((1, "jour", None))),
        *(chunk((1, "", "stop")), chunk((0, "", "stop"))),
    ],
    "together": [
        chunk((1, "Bon", None), (0, "Hello ", None)),
        chunk((0, "world.", None), (1, "jour", None)),
        chunk((0, "", "stop"), (1, "", "length")),
    ],
    "the second alone": [chunk((1, "Hello ", None)), chunk((1, "world.", "stop"))],
}


@pytest.mark.parametrize("form", CHOICES)
async def test_one_of_several_choices_is_the_answer(providers: Providers, form: str) -> None:
    sent = raw(*CHOICES[form], live=True)
    answer = await answer_of(providers, "chat", f"choices-{form.replace(' ', '-')}", sent, live=True)
    assert (answer.text, answer.finish_reason) == ("Hello world.", "stop")


CALL: Json = {"id": "a", "type": "function", "function": {"name": "write_file", "arguments": '{"path": "/a"}'}}
CHAT_CALLS: dict[str, Json] = {
    "arguments as an object": {**CALL, "function": {"name": "write_file", "arguments": {"path": "/a"}}},
    "id as a number": {**CALL, "id": 7},
    "id null": {**CALL, "id": None},
    "type null": {**CALL, "type": None},
    "no type": {key: CALL[key] for key in ("id", "function")},
}
CHOICE: Json = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}
CHAT_TEXTS: dict[str, Json] = {
    "no role": {"choices": [{**CHOICE, "message": {"content": "Hello."}}]},
    "no index": {"choices": [{key: CHOICE[key] for key in ("finish_reason", "message")}]},
    "empty reason": {"choices": [{**CHOICE, "finish_reason": ""}]},
    "no reason": {"choices": [{**CHOICE, "finish_reason": None}]},
    "odd usage": {"choices": [CHOICE], "usage": {"prompt_tokens": "many"}},
    "usage as a list": {"choices": [CHOICE], "usage": [1]},
    "odd log probabilities": {"choices": [{**CHOICE, "logprobs": {"content": [{"token": 5}]}}]},
    "another object": {"choices": [CHOICE], "object": "text_completion"},
    "odd time": {"choices": [CHOICE], "created": "now"},
    "odd id": {"choices": [CHOICE], "id": 5, "model": None},
}


@pytest.mark.parametrize("form", CHAT_CALLS)
async def test_a_call_of_chat_is_read_in_the_one_way_that_it_can_be(providers: Providers, form: str) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALLS[form]]}
    body = {
        **CHUNK,
        "object": "chat.completion",
        "choices": [{**CHOICE, "finish_reason": "tool_calls", "message": said}],
    }
    answer = await answer_of(providers, "chat", f"call-{form.replace(' ', '-')}", raw(body, live=False), live=False)
    assert paths(answer) == ["/a"]


@pytest.mark.parametrize("form", CHAT_TEXTS)
async def test_fields_that_say_nothing_of_an_answer_of_chat_take_nothing_of_it(providers: Providers, form: str) -> None:
    body = {**CHUNK, "object": "chat.completion", **CHAT_TEXTS[form]}
    answer = await answer_of(providers, "chat", f"field-{form.replace(' ', '-')}", raw(body, live=False), live=False)
    assert (answer.text, answer.finish_reason) == ("Hello.", "stop")


async def test_a_stream_of_chat_is_read_in_the_one_way_that_it_can_be(providers: Providers) -> None:
    begin = {"index": 0, "id": 7, "type": "function", "function": {"name": "write_file", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": {"path": "/a"}}}
    odd = {"content": [{"token": 5}]}
    events: list[Json] = [
        {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [begin]}, "logprobs": odd}]},
        {**CHUNK, "choices": [{"delta": {"tool_calls": [rest]}}], "usage": "many"},
        {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {**CHUNK, "choices": [], "usage": {"prompt_tokens": "many"}},
    ]
    answer = await answer_of(providers, "chat", "odd-stream", raw(*events, live=True), live=True)
    assert paths(answer) == ["/a"]


TEXT: Json = {"type": "text", "text": "Hello."}
USE: Json = {"type": "tool_use", "id": "toolu_a", "name": "write_file", "input": {"path": "/a"}}
MESSAGE: Json = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
USED: Json = {"input_tokens": 3, "output_tokens": 4}
ANTHROPIC: dict[str, Json] = {
    "usage null": {"content": [TEXT, USE], "usage": None},
    "no usage": {"content": [TEXT, USE]},
    "odd usage": {"content": [TEXT, USE], "usage": {"input_tokens": "many", "output_tokens": None}},
    "text null": {"content": [{"type": "text", "text": None}, TEXT, USE], "usage": USED},
    "unknown block": {"content": [TEXT, {"type": "hologram", "x": 1}, USE], "usage": USED},
    "no id": {"content": [TEXT, {key: USE[key] for key in ("type", "name", "input")}], "usage": USED},
    "id null": {"content": [TEXT, {**USE, "id": None}], "usage": USED},
}


@BOTH
@pytest.mark.parametrize("form", ANTHROPIC)
async def test_an_answer_of_anthropic_is_read_in_the_one_way_that_it_can_be(
    providers: Providers, form: str, live: bool
) -> None:
    body = {**MESSAGE, **ANTHROPIC[form]}
    sent = raw(*_as_anthropic_streams(body), live=True) if live else raw(body, live=False)
    answer = await answer_of(providers, "anthropic", f"a-{form.replace(' ', '-')}-{live}", sent, live=live)
    assert (answer.text, paths(answer)) == ("Hello.", ["/a"])


def _as_anthropic_streams(body: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}
    for place, block in enumerate(body["content"]):
        begun: Json = {"text": block.get("text") and "", "input": {}}
        yield {
            "type": "content_block_start",
            "index": place,
            "content_block": {**block, **{key: begun[key] for key in begun.keys() & block.keys()}},
        }
        delta = {"type": "text_delta", "text": block.get("text") or ""}
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_delta", "index": place, "delta": delta}
        yield {"type": "content_block_stop", "index": place}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}
    yield {"type": "message_stop"}


PART, CALLED = {"text": "Hello."}, {"functionCall": {"name": "write_file", "args": {"path": "/a"}}}
GOOGLE: dict[str, Json] = {
    "arguments as text": {"parts": [PART, {"functionCall": {"name": "write_file", "args": '{"path": "/a"}'}}]},
    "empty part": {"parts": [{}, PART, CALLED, {}]},
    "unknown part": {"parts": [PART, {"hologram": {"x": 1}}, CALLED]},
    "odd usage": {"parts": [PART, CALLED]},
}


@BOTH
@pytest.mark.parametrize("form", GOOGLE)
async def test_an_answer_of_google_is_read_in_the_one_way_that_it_can_be(
    providers: Providers, form: str, live: bool
) -> None:
    candidate = {"content": {"role": "model", **GOOGLE[form]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": "many"} if form == "odd usage" else {"promptTokenCount": 3}
    body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}
    answer = await answer_of(providers, "google", f"g-{form.replace(' ', '-')}-{live}", raw(body, live=live), live=live)
    assert (answer.text, paths(answer)) == ("Hello.", ["/a"])


TIMES: dict[str, Any] = {
    "nanoseconds": 1_700_000_000_000_000_000,
    "past all numbers": 1e300,
    "before all": -1e18,
    "word": "yesterday",
    "object": {"seconds": 1},
    "null": None,
}


@BOTH
@pytest.mark.parametrize("form", TIMES)
async def test_a_time_that_is_none_takes_nothing_of_an_answer(providers: Providers, form: str, live: bool) -> None:
    time = {"created_at": TIMES[form]}
    whole = {**RESPONSE, **time, "status": "completed", "output": [WHOLE]}
    begin = {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    end = {"type": "response.completed", "response": whole}
    sent = raw(begin, *TEXTS["as usual"], end, live=True) if live else raw(whole, live=False)
    answer = await answer_of(providers, "responses", f"time-{form.replace(' ', '-')}-{live}", sent, live=live)
    assert answer.text == "Hello world."
    body = {**CHUNK, "created": TIMES[form], "choices": [{**CHOICE, "delta": {"content": "Hello."}}]}
    sent = raw(body if live else {**body, "object": "chat.completion"}, live=live)
    answer = await answer_of(providers, "chat", f"time-chat-{form.replace(' ', '-')}-{live}", sent, live=live)
    assert answer.text == "Hello."


@BOTH
@pytest.mark.parametrize("reason", [7, {"type": "eos"}, True], ids=["number", "object", "true"])
async def test_a_reason_that_is_no_text_is_a_reason(providers: Providers, reason: Any, live: bool) -> None:
    body = {**CHUNK, "choices": [{**CHOICE, "delta": {"content": "Hello."}, "finish_reason": reason}]}
    sent = raw(body if live else {**body, "object": "chat.completion"}, live=live)
    name = f"reason-{live}-{json.dumps(reason).encode().hex()}"
    assert (await answer_of(providers, "chat", f"c{name}", sent, live=live)).text == "Hello."
    message = {**MESSAGE, "content": [TEXT], "usage": USED, "stop_reason": reason}
    sent = raw(*_as_anthropic_streams(message), live=True) if live else raw(message, live=False)
    assert (await answer_of(providers, "anthropic", f"a{name}", sent, live=live)).text == "Hello."


@BOTH
async def test_names_that_are_no_texts_take_nothing_of_an_answer_of_google(providers: Providers, live: bool) -> None:
    candidate = {"content": {"role": "model", "parts": [PART]}, "finishReason": "STOP", "index": 0}
    body = {"candidates": [candidate], "modelVersion": {"name": "m"}, "responseId": 5}
    answer = await answer_of(providers, "google", f"g-names-{live}", raw(body, live=live), live=live)
    assert answer.text == "Hello."


@BOTH
@pytest.mark.parametrize("reason", [7, {"type": "stop"}], ids=["number", "object"])
async def test_an_odd_reason_of_google_breaks_an_answer_off(providers: Providers, reason: Any, live: bool) -> None:
    candidate = {"content": {"role": "model", "parts": [PART]}, "finishReason": reason, "index": 0}
    alias = providers.alias(
        "google", f"g-odd-{live}-{isinstance(reason, int)}", raw({"candidates": [candidate]}, live=live)
    )
    with pytest.raises(ApplicationError, match="its server broke it off, with the finish reason"):
        await ask_turns(alias, [ModelRequest(parts=[UserPromptPart("Go.")])], TOOLS, live=live)


@BOTH
async def test_arguments_that_are_null_are_none(providers: Providers, live: bool) -> None:
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "write_file", "arguments": "null"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "delta": said, "message": said, "finish_reason": "tool_calls"}
    sent = raw(
        {**CHUNK, "object": "chat.completion.chunk" if live else "chat.completion", "choices": [choice]}, live=live
    )
    answer = await answer_of(providers, "chat", f"null-args-{live}", sent, live=live)
    assert [part.args for part in answer.parts if isinstance(part, ToolCallPart)] == ["{}"]
