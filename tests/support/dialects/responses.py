"""OpenAI's responses, as a server without newer kinds of items speaks them.

Ids tell what belongs together: `rs_2` is the reasoning of answer 2, and `fc_2_0_r` a call that may not come without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, cast

from tests.support.dialects.answers import TOOL_NAME, Answer, Ask, Json, Think, halves, is_object, signed
from tests.support.dialects.schemas import wrong_tool

_USAGE = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 90,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 990,
}
_SAID = {"input_text", "input_image", "input_file"}


def failure(status: int, message: str) -> Json:
    """The body of an HTTP error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, "s": status}}


def whole(answer: Answer, number: int, body: Json) -> Json:
    is_cut = answer.end not in ("done", "unsaid")
    reason = "max_output_tokens" if answer.end in ("length", "window") else "content_filter"
    return {
        **_begun(number, body),
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": reason} if is_cut else None,
        "output": _items(answer, number, body),
        "usage": _USAGE,
    }


def events(answer: Answer, number: int, body: Json) -> Iterator[tuple[str | None, Json]]:
    """The answer as a stream, each event with its name."""
    sequence = count()
    for kind, data in _events(answer, number, body):
        yield kind, {"type": kind, "sequence_number": next(sequence), **data}


def check(body: Json, _headers: Json) -> str | None:
    """What OpenAI would refuse in a request; None where it is fine."""
    items = body.get("input")
    if not isinstance(items, list) or not items:
        return "missing required parameter: 'input'"
    asked: dict[str, bool] = {}
    given = cast("list[Json]", items)
    own = [item["id"] for item in given if "id" in item]
    if len(set(own)) != len(own):
        return f"Duplicate item found with id: {own}"
    for place, item in enumerate(given):
        if (wrong := _wrong(item, given[:place], given[place + 1 :], asked)) is not None:
            return f"input[{place}]: {wrong}"
    tools: list[Json] = body.get("tools") or []
    for tool in tools:
        if tool.get("type") != "function" or not re.fullmatch(TOOL_NAME, tool["name"]):
            return f"invalid tool: {tool}"
        if (wrong := wrong_tool(tool["parameters"], tool.get("description"))) is not None:
            return f"invalid schema for function '{tool['name']}': {wrong}"
    missing = sorted(call for call, is_answered in asked.items() if not is_answered)
    return f"no tool output found for function call {missing[0]}" if missing else None


def _wrong(item: Json, before: list[Json], after: list[Json], asked: dict[str, bool]) -> str | None:
    kind = item.get("type", "message")
    if kind == "function_call":
        if item["call_id"] in asked:
            return f"duplicate call_id {item['call_id']}"
        asked[item["call_id"]] = False
        return _wrong_call(item, before)
    if kind == "function_call_output":
        if asked.get(item["call_id"]) is not False:
            return f"no tool call found for function call output with call_id {item['call_id']}"
        asked[item["call_id"]] = True
        return None
    if kind == "reasoning":
        return _wrong_reasoning(item, after)
    return _wrong_message(item) if kind == "message" else f"invalid value: '{kind}'"


def _wrong_call(item: Json, before: list[Json]) -> str | None:
    if not 0 < len(item["call_id"]) <= 64 or not re.fullmatch(TOOL_NAME, item["name"]):
        return f"invalid function_call: {item['call_id']!r}, {item['name']!r}"
    own = str(item.get("id", "fc_"))
    if not own.startswith("fc_"):
        return f"invalid 'id': '{own}'; expected an ID that begins with 'fc'"
    if not is_object(item["arguments"]):
        return f"arguments are no JSON object: {item['arguments']!r}"
    needed = f"rs_{own.split('_')[1]}"
    if own.endswith("_r") and not any(one.get("id") == needed for one in before):
        return f"item '{own}' of type 'function_call' was provided without its required 'reasoning' item: '{needed}'"
    return None


def _wrong_reasoning(item: Json, after: list[Json]) -> str | None:
    own = str(item.get("id"))
    summary: list[Json] = item.get("summary") or []
    thought = "".join(part["text"] for part in summary)
    if not own.startswith("rs_") or item.get("encrypted_content", signed(thought)) != signed(thought):
        return f"the encrypted content of '{own}' could not be verified"
    following = str(after[0].get("id")) if after else ""
    if following.split("_")[1:2] != [own.split("_")[1]]:
        return f"item '{own}' of type 'reasoning' was provided without its required following item"
    return None


def _wrong_message(item: Json) -> str | None:
    role, content = item.get("role"), item.get("content")
    if role not in {"user", "assistant", "system", "developer"}:
        return f"invalid role {role!r}"
    if not str(item.get("id", "msg_")).startswith("msg_"):
        return f"invalid 'id': '{item['id']}'; expected an ID that begins with 'msg'"
    if isinstance(content, str):
        return None
    parts: list[Json] = content or []
    kinds = [part.get("type") for part in parts]
    if not kinds or not set(kinds) <= ({"output_text", "refusal"} if role == "assistant" else _SAID):
        return f"invalid content of {role}: {kinds}"
    return None


def _begun(number: int, body: Json) -> Json:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_735_689_600,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def _items(answer: Answer, number: int, body: Json) -> list[Json]:
    found: list[Json] = []
    reasoned = "_r" if answer.thought else ""
    for place, part in enumerate(answer.parts):
        if isinstance(part, Think):
            item: Json = {"type": "reasoning", "id": f"rs_{number}", "summary": _summary(part.text)}
            if "reasoning.encrypted_content" in (body.get("include") or []):
                item["encrypted_content"] = signed(part.text)
            found.append(item)
        elif isinstance(part, Ask):
            call = {
                "call_id": f"call_{number}_{place}" if part.id is None else part.id,
                "name": part.name,
                "arguments": part.written,
            }
            own = {"type": "function_call", "id": f"fc_{number}_{place}{reasoned}", "status": "completed"}
            found.append({**own, **call})
        else:
            found.append(_message(number, place, [_text(part.text)]))
    if answer.refusal:
        found.append(_message(number, len(found), [{"type": "refusal", "refusal": answer.refusal}]))
    return found


def _message(number: int, place: int, content: list[Json]) -> Json:
    own = {"type": "message", "id": f"msg_{number}_{place}", "role": "assistant", "status": "completed"}
    return {**own, "content": content}


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary(text: str) -> list[Json]:
    return [{"type": "summary_text", "text": text}]


def _events(answer: Answer, number: int, body: Json) -> Iterator[tuple[str, Json]]:
    yield "response.created", {"response": _begun(number, body)}
    for index, item in enumerate(_items(answer, number, body)):
        at: Json = {"output_index": index, "item_id": item["id"]}
        yield "response.output_item.added", {"output_index": index, "item": _bare(item)}
        yield from _pieces(item, at)
        yield "response.output_item.done", {"output_index": index, "item": item}
    if answer.end == "unsaid":
        return
    end = "incomplete" if answer.end != "done" else "completed"
    yield f"response.{end}", {"response": whole(answer, number, body)}


def _pieces(item: Json, at: Json) -> Iterator[tuple[str, Json]]:
    if item["type"] == "reasoning":
        at = {**at, "summary_index": 0}
        text = item["summary"][0]["text"]
        yield "response.reasoning_summary_part.added", {**at, "part": _summary("")[0]}
        for piece in halves(text):
            yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
        yield "response.reasoning_summary_text.done", {**at, "text": text}
        yield "response.reasoning_summary_part.done", {**at, "part": _summary(text)[0]}
    elif item["type"] == "function_call":
        for piece in halves(item["arguments"]):
            yield "response.function_call_arguments.delta", {**at, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield "response.function_call_arguments.done", {**at, **done}
    else:
        yield from _message_pieces(item["content"][0], {**at, "content_index": 0})


def _message_pieces(content: Json, at: Json) -> Iterator[tuple[str, Json]]:
    kind = "refusal" if content["type"] == "refusal" else "text"
    name = "refusal" if kind == "refusal" else "output_text"
    empty: Any = {**content, kind: ""}
    yield "response.content_part.added", {**at, "part": empty}
    for piece in halves(content[kind]):
        yield f"response.{name}.delta", {**at, "delta": piece, "logprobs": []}
    yield f"response.{name}.done", {**at, kind: content[kind], "logprobs": []}
    yield "response.content_part.done", {**at, "part": content}


def _bare(item: Json) -> Json:
    if item["type"] == "reasoning":
        return {**item, "summary": [], "encrypted_content": None}
    if item["type"] == "function_call":
        return {**item, "arguments": "", "status": "in_progress"}
    return {**item, "content": [], "status": "in_progress"}
