"""OpenAI's chat completions, as it and servers compatible with it speak them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from tests.support.dialects.answers import TOOL_NAME, Answer, Json, halves, is_object
from tests.support.dialects.schemas import wrong_tool
from tests.support.providers.wire import check_conversation

_FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content"}
_USER_PARTS = {"text", "image_url", "input_audio", "file"}
_USAGE = {"prompt_tokens": 900, "completion_tokens": 90, "total_tokens": 990}


def failure(status: int, message: str) -> Json:
    """The body of an HTTP error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, "s": status}}


def whole(answer: Answer, number: int, body: Json) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal}
    if answer.thought:
        message["reasoning_content"] = answer.thought
    if answer.calls:
        message["tool_calls"] = _calls(answer, number)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_envelope(number, body, "chat.completion"), "choices": [choice], "usage": _USAGE}


def events(answer: Answer, number: int, body: Json) -> Iterator[tuple[str | None, Json]]:
    """The answer as a stream, each event with its name, where it has one."""
    envelope = _envelope(number, body, "chat.completion.chunk")
    for delta in _deltas(answer, number):
        yield None, {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    if answer.end == "unsaid":
        return
    yield None, {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield None, {**envelope, "choices": [], "usage": _USAGE}


def check(body: Json, _headers: Json) -> str | None:
    """What OpenAI would refuse in a request; None where it is fine."""
    messages: list[Json] = body.get("messages") or []
    for place, message in enumerate(messages):
        if (wrong := _wrong(message)) is not None:
            return f"messages[{place}]: {wrong}"
    tools: list[Json] = body.get("tools") or []
    names: list[str] = [tool["function"]["name"] for tool in tools]
    if len(set(names)) != len(names) or not all(re.fullmatch(TOOL_NAME, name) for name in names):
        return f"invalid 'tools': {names}"
    for tool in tools:
        function: Json = tool["function"]
        if (wrong := wrong_tool(function["parameters"], function.get("description"))) is not None:
            return f"invalid schema for function '{function['name']}': {wrong}"
    return check_conversation(body)


def _wrong(message: Json) -> str | None:
    role, content = message.get("role"), message.get("content")
    if unknown := set(message) - _FIELDS:
        return f"unrecognized arguments: {sorted(unknown)}"
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        return f"invalid role {role!r}"
    if role == "assistant" and content is None and not message.get("tool_calls"):
        return "expected 'content' or 'tool_calls'"
    if role != "assistant" and content is None:
        return "invalid type for 'content': null"
    if isinstance(content, list):
        kinds = [part.get("type") for part in cast("list[Json]", content)]
        if not kinds or not set(kinds) <= (_USER_PARTS if role == "user" else {"text", "refusal"}):
            return f"invalid content parts {kinds}"
    calls: list[Json] = message.get("tool_calls") or []
    for call in calls:
        if not re.fullmatch(TOOL_NAME, call["function"]["name"]) or len(call["id"]) > 40 or not call["id"]:
            return f"invalid 'tool_calls': {call['function']['name']!r}, {call['id']!r}"
        # OpenAI itself takes any text; servers that render it into a template do not.
        if not is_object(call["function"]["arguments"]):
            return f"arguments are no JSON object: {call['function']['arguments']!r}"
    return None


def _deltas(answer: Answer, number: int) -> Iterator[Json]:
    yield {"role": "assistant", "content": "" if answer.text else None}
    for piece in halves(answer.thought):
        yield {"reasoning_content": piece}
    for piece in halves(answer.text):
        yield {"content": piece}
    if answer.refusal:
        yield {"refusal": answer.refusal}
    for index, call in enumerate(_calls(answer, number)):
        function, index = call["function"], index if answer.at is None else answer.at
        yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]}
        for piece in halves(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _calls(answer: Answer, number: int) -> list[Json]:
    return [
        {
            "id": f"call_{number}_{index}" if call.id is None else call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.written},
        }
        for index, call in enumerate(answer.calls)
    ]


def _finish(answer: Answer) -> str | None:
    if answer.end == "unsaid":
        return None
    if answer.end != "done":
        return "length" if answer.end in ("length", "window") else "content_filter"
    return "tool_calls" if answer.calls else "stop"


def _envelope(number: int, body: Json, kind: str) -> Json:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_735_689_600, "model": body["model"]}
