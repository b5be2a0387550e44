"""The chat-completions protocol: the bytes of an answer, plain or streamed, and what a request must look like.

Pure. `check_conversation` refuses what OpenAI refuses, so that a conversation with a hole fails a test here and not
at a customer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.support.providers.answers import (
    Answer,
    Call,
    Delayed,
    Drop,
    Failure,
    Garbage,
    Gate,
    Gated,
    Reported,
    Text,
    ToolCalls,
    Usage,
)

Json = dict[str, Any]

CREATED = 1_735_689_600
"""Every answer carries the same time, 2025-01-01: two runs of a script give the same bytes."""
BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Exchange:
    """What an answer's form depends on besides the answer: its number and the request it belongs to."""

    number: int
    body: Json

    @property
    def streamed(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def model(self) -> str:
        return str(self.body.get("model", "scripted"))

    def call_id(self, index: int) -> str:
        """Unique in a run even where the provider was restarted and counts from 1 again."""
        digest = hashlib.sha256(json.dumps(self.body.get("messages"), sort_keys=True).encode()).hexdigest()
        return f"call_{self.number}_{index}_{digest[:8]}"


@dataclass(frozen=True)
class Reply:
    """A response ready to be sent, in the pieces in which it is sent."""

    status: int
    media_type: str
    pieces: tuple[bytes, ...]
    retry_after_seconds: float | None = None
    cut: bool = False
    """Send half of the pieces (of the bytes, where there is only one) and close the connection."""
    pause: Gate | None = None


def compose(answer: Answer, exchange: Exchange) -> Reply:
    """Give an answer its form on the wire."""
    match answer:
        case Text() | ToolCalls():
            return _completion(answer, exchange)
        case Drop():
            whole = _completion(answer.of, exchange)
            return replace(whole, cut=True)
        case Garbage():
            return Reply(200, "application/json", (answer.body,))
        case Failure():
            return _failure(answer)
        case Delayed() | Gated():
            raise TypeError("an answer that waits is unwrapped before it is composed")


def _failure(failure: Failure) -> Reply:
    kind = failure.type or ("server_error" if failure.status >= 500 else "invalid_request_error")
    error = {"message": failure.message, "type": kind, "param": None, "code": failure.code}
    body = json.dumps({"error": error}).encode()
    return Reply(failure.status, "application/json", (body,), retry_after_seconds=failure.retry_after_seconds)


def _completion(answer: Text | ToolCalls, exchange: Exchange) -> Reply:
    if exchange.streamed:
        pause = answer.pause if isinstance(answer, Text) else None
        return Reply(200, "text/event-stream", tuple(_events(answer, exchange)), pause=pause)
    message: Json = {"role": "assistant", "content": answer.text, "refusal": None}
    if isinstance(answer, ToolCalls):
        message["tool_calls"] = [_tool_call(call, i, exchange) for i, call in enumerate(answer.calls)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    body = _envelope(exchange, "chat.completion") | {"choices": [choice], "usage": _usage(answer, exchange)}
    return Reply(200, "application/json", (json.dumps(body).encode(),))


def _events(answer: Text | ToolCalls, exchange: Exchange) -> Iterator[bytes]:
    envelope = _envelope(exchange, "chat.completion.chunk")
    for delta in _deltas(answer, exchange):
        yield _event(envelope | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event(envelope | {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(answer)}]})
    options: Json = exchange.body.get("stream_options") or {}
    if options.get("include_usage"):
        yield _event(envelope | {"choices": [], "usage": _usage(answer, exchange)})
    yield b"data: [DONE]\n\n"


def _deltas(answer: Text | ToolCalls, exchange: Exchange) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for word in re.findall(r"\s*\S+\s*", answer.text or ""):
        yield {"content": word}
    if isinstance(answer, Text):
        return
    for index, call in enumerate(answer.calls):
        whole = _tool_call(call, index, exchange)
        arguments: str = whole["function"]["arguments"]
        yield {"tool_calls": [whole | {"index": index, "function": {"name": call.name, "arguments": ""}}]}
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _event(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _envelope(exchange: Exchange, kind: str) -> Json:
    return {"id": f"chatcmpl-{exchange.number}", "object": kind, "created": CREATED, "model": exchange.model}


def _tool_call(call: Call, index: int, exchange: Exchange) -> Json:
    function = {"name": call.name, "arguments": json.dumps(call.args)}
    return {"id": exchange.call_id(index), "type": "function", "function": function}


def _finish_reason(answer: Text | ToolCalls) -> str:
    return "stop" if isinstance(answer, Text) else "tool_calls"


def _usage(answer: Text | ToolCalls, exchange: Exchange) -> Any:
    calls = answer.calls if isinstance(answer, ToolCalls) else ()
    said = len(answer.text or "") + sum(len(call.name) + len(json.dumps(call.args)) for call in calls)
    asked = len(json.dumps(exchange.body))
    if isinstance(answer.usage, Reported):
        return answer.usage.value
    usage = answer.usage or Usage(1 + asked // BYTES_PER_TOKEN, 1 + said // BYTES_PER_TOKEN)
    total = usage.prompt_tokens + usage.completion_tokens
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": total,
    }


def check_conversation(body: Json) -> str | None:
    """Say what OpenAI would refuse in a request, or None where it is fine."""
    messages: list[Json] = body.get("messages") or []
    if not messages:
        return "[] is too short - 'messages'"
    open_calls: set[str] = set()
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages[{position}]: no preceding tool_calls with id '{message['tool_call_id']}'"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"messages[{position}]: tool_call_ids without a response: {', '.join(sorted(open_calls))}"
        made: list[Json] = message.get("tool_calls") or []
        open_calls = {call["id"] for call in made}
    if open_calls:
        return f"the last tool_call_ids have no response: {', '.join(sorted(open_calls))}"
    return None
