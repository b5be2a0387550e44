"""Anthropic's messages, as models speak them that know no `system` role inside a conversation."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, cast

from tests.support.dialects.answers import TOOL_NAME, Answer, Json, Say, Think, halves, signed
from tests.support.dialects.schemas import wrong_tool

_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


def failure(status: int, message: str) -> Json:
    """The body of an HTTP error."""
    kind = {401: "authentication_error", 404: "not_found_error"}.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def whole(answer: Answer, number: int, body: Json) -> Json:
    """The answer in one piece. Arguments that are no JSON come as an empty object, which is what Anthropic makes."""
    return {
        **_begun(number, body),
        "content": [_block(part, number, place) for place, part in enumerate(answer.parts)],
        "stop_reason": _stop(answer),
        "usage": {"input_tokens": 900, "output_tokens": 90},
    }


def events(answer: Answer, number: int, body: Json) -> Iterator[tuple[str | None, Json]]:
    """The answer as a stream, each event with its name."""
    for kind, data in _events(answer, number, body):
        yield kind, {"type": kind, **data}


def check(body: Json, _headers: Json) -> str | None:
    """What Anthropic would refuse in a request; None where it is fine."""
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    thinking: Json = body.get("thinking") or {}
    choice: Json = body.get("tool_choice") or {}
    thinks = thinking.get("type") == "enabled"
    if thinks and choice.get("type") in {"any", "tool"}:
        return "Thinking may not be enabled when tool_choice forces tool use."
    if thinks and thinking["budget_tokens"] >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    tools: list[Json] = body.get("tools") or []
    names: list[str] = [tool["name"] for tool in tools]
    if len(set(names)) != len(names) or not all(re.fullmatch(TOOL_NAME, name) for name in names):
        return f"tools: Tool names must be unique and match a pattern: {names}"
    for tool in tools:
        if "input_schema" in tool and (wrong := wrong_tool(tool["input_schema"])) is not None:
            return f"tools.custom.input_schema: {wrong}"
    messages: list[Json] = body.get("messages") or []
    for place, message in enumerate(messages):
        if (wrong := _wrong(message)) is not None:
            return f"messages.{place}: {wrong}"
    if not messages or messages[0]["role"] != "user":
        return 'messages: first message must use the "user" role'
    return _check_calls(_joined(messages))


def _wrong(message: Json) -> str | None:
    if message.get("role") not in {"user", "assistant"}:
        return f'Unexpected role "{message.get("role")}"'
    for block in _blocks(message):
        if (wrong := _wrong_block(block, message["role"])) is not None:
            return wrong
    if not _blocks(message):
        return "all messages must have non-empty content"
    ends_in_thought = _blocks(message)[-1]["type"] == "thinking"
    return "The final block in an assistant message cannot be `thinking`." if ends_in_thought else None


def _wrong_block(block: Json, role: str) -> str | None:
    kind = block.get("type")
    if kind == "text":
        return None if block["text"].strip() else "text content blocks must be non-empty"
    if kind == "thinking" and role == "assistant":
        return None if block["signature"] == signed(block["thinking"]) else "Invalid `signature` in `thinking` block"
    if kind == "tool_use" and role == "assistant":
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) or not re.fullmatch(TOOL_NAME, block["name"]):
            return f"tool_use: String should match pattern: {block['id']!r}, {block['name']!r}"
        return None if isinstance(block["input"], dict) else "tool_use.input: Input should be a valid dictionary"
    if kind == "tool_result" and role == "user":
        inner: list[Json] = [one for one in _blocks(block) if one["type"] == "text"]
        return next((wrong for one in inner if (wrong := _wrong_block(one, role)) is not None), None)
    if kind == "image" and role == "user":
        return _wrong_image(block["source"])
    if kind == "document" and role == "user":
        is_pdf = block["source"].get("media_type") == "application/pdf"
        return None if is_pdf else "document.source.base64.media_type: Input should be 'application/pdf'"
    return f"Input tag '{kind}' found using 'type' does not match any of the expected tags"


def _wrong_image(source: Json) -> str | None:
    try:
        base64.b64decode(source["data"], validate=True)
    except (KeyError, binascii.Error):
        return "image.source.base64.data: invalid base64 data"
    return None if source.get("media_type") in _IMAGES else "image.source.base64.media_type: not supported"


def _check_calls(turns: list[tuple[str, list[Json]]]) -> str | None:
    ids = [block["id"] for _, blocks in turns for block in blocks if block["type"] == "tool_use"]
    if len(set(ids)) != len(ids):
        return f"`tool_use` ids must be unique: {ids}"
    for place, (role, blocks) in enumerate(turns):
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        asked = {one["id"] for one in turns[place - 1][1] if one["type"] == "tool_use"} if place else set[str]()
        following = turns[place + 1][1] if place + 1 < len(turns) else []
        answered = {one["tool_use_id"] for one in following if one["type"] == "tool_result"}
        if calls - answered:
            return (
                f"messages.{place}: `tool_use` ids were found without `tool_result` blocks: {sorted(calls - answered)}"
            )
        if set(results) - asked or len(set(results)) != len(results):
            return f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {results}"
        kinds = [block["type"] for block in blocks]
        if role == "user" and "tool_result" in kinds[len(results) :]:
            return f"messages.{place}: `tool_result` blocks must come first: {kinds}"
    return None


def _joined(messages: list[Json]) -> list[tuple[str, list[Json]]]:
    """The turns: messages of one role that follow each other are one."""
    turns: list[tuple[str, list[Json]]] = []
    for message in messages:
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(_blocks(message))
        else:
            turns.append((message["role"], list(_blocks(message))))
    return turns


def _blocks(message: Json) -> list[Json]:
    content: Any = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _begun(number: int, body: Json) -> Json:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": 1},
    }


def _block(part: Any, number: int, place: int) -> Json:
    if isinstance(part, Say):
        return {"type": "text", "text": part.text, "citations": None}
    if isinstance(part, Think):
        return {"type": "thinking", "thinking": part.text, "signature": signed(part.text)}
    given = cast("Json", part.args) if isinstance(part.args, dict) else {}
    return {
        "type": "tool_use",
        "id": f"toolu_{number}_{place}" if part.id is None else part.id,
        "name": part.name,
        "input": given,
    }


def _stop(answer: Answer) -> str | None:
    if answer.end == "unsaid":
        return None
    if answer.refusal is not None:
        return "refusal"
    if answer.end != "done":
        return {"length": "max_tokens", "window": "model_context_window_exceeded"}.get(answer.end, "refusal")
    return "tool_use" if answer.calls else "end_turn"


def _events(answer: Answer, number: int, body: Json) -> Iterator[tuple[str, Json]]:
    yield "message_start", {"message": _begun(number, body)}
    for index, part in enumerate(answer.parts):
        block = _block(part, number, index)
        index = index if answer.at is None else answer.at
        bare = {**block, **{key: "" for key in ("text", "thinking", "signature") if key in block}}
        if "input" in block:
            bare["input"] = {}
        yield "content_block_start", {"index": index, "content_block": bare}
        for delta in _deltas(part):
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    if answer.end == "unsaid":
        return
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield "message_delta", {"delta": delta, "usage": {"output_tokens": 90}}
    yield "message_stop", {}


def _deltas(part: Any) -> Iterator[Json]:
    if isinstance(part, Say):
        yield from ({"type": "text_delta", "text": piece} for piece in halves(part.text))
    elif isinstance(part, Think):
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in halves(part.text))
        yield {"type": "signature_delta", "signature": signed(part.text)}
    else:
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in halves(part.written))
