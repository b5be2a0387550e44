"""Google's `generateContent`."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from tests.support.dialects.answers import TOOL_NAME, Answer, Json, Say, Think, halves, signed

_KINDS = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
_BESIDE = {"thought", "thoughtSignature"}
_NO_SIGNATURE = b"skip_thought_signature_validator"
"""What Google documents for a call that another model has made."""
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}


def failure(status: int, message: str) -> Json:
    """The body of an HTTP error."""
    return {"error": {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}}


def whole(answer: Answer, number: int, body: Json) -> Json:
    """The answer in one piece. Arguments that are no JSON are a finish reason and no call."""
    return _chunk(_parts(answer), _finish(answer), number)


def events(answer: Answer, number: int, body: Json) -> Iterator[tuple[str | None, Json]]:
    for part in _parts(answer):
        if "text" not in part:
            yield None, _chunk([part], None, number)
            continue
        for piece in halves(part["text"]):
            yield None, _chunk([{**part, "text": piece}], None, number)
    if answer.end != "unsaid":
        yield None, _chunk([], _finish(answer), number)


def check(body: Json, _headers: Json) -> str | None:
    """What Google would refuse in a request; None where it is fine."""
    contents: list[Json] = body.get("contents") or []
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified"
    if contents[0]["role"] != "user":
        return "Please ensure that the conversation begins with a user turn."
    for place, content in enumerate(contents):
        if (wrong := _wrong(content)) is not None:
            return f"contents[{place}]: {wrong}"
    tools: list[Json] = body.get("tools") or []
    functions: list[Json] = [one for tool in tools for one in tool.get("functionDeclarations") or ()]
    names: list[str] = [one["name"] for one in functions]
    if len(set(names)) != len(names) or not all(re.fullmatch(TOOL_NAME, name) for name in names):
        return f"Invalid function names: {names}"
    return _check_calls(contents)


def _wrong(content: Json) -> str | None:
    parts: list[Json] = content.get("parts") or []
    if content.get("role") not in {"user", "model"} or not parts:
        return f"must have a role and parts: {content}"
    for part in parts:
        if len(_KINDS & set(part)) != 1 or set(part) - _KINDS - _BESIDE:
            return f"a part has one kind of data: {sorted(part)}"
        if not part.get("text", "text").strip() and "thoughtSignature" not in part:
            return "must have a text parameter: it is empty"
        if "functionCall" in part and not re.fullmatch(TOOL_NAME, part["functionCall"]["name"]):
            return f"functionCall.name: invalid {part['functionCall']['name']!r}"
        if "functionCall" in part and not isinstance(part["functionCall"].get("args", {}), dict):
            return "functionCall.args: expected a map"
        if "inlineData" in part and not {"mimeType", "mime_type"} & set(part["inlineData"]):
            return "inlineData.mimeType: missing"
        if (signature := part.get("thoughtSignature")) is not None and not _is_ours(signature):
            return "Thought signature is not valid."
    return None


def _is_ours(signature: str) -> bool:
    data = base64.b64decode(signature.translate(str.maketrans("-_", "+/")) + "==")
    return data == _NO_SIGNATURE or re.fullmatch(rb"[0-9a-f]{64}", data) is not None


def _check_calls(contents: list[Json]) -> str | None:
    for place, content in enumerate(contents):
        calls, results = (_names(content, kind) for kind in ("functionCall", "functionResponse"))
        if calls and (not place or contents[place - 1]["role"] != "user"):
            return "Please ensure that function call turn comes immediately after a user turn."
        following = _names(contents[place + 1], "functionResponse") if place + 1 < len(contents) else []
        if calls and sorted(calls) != sorted(following):
            return (
                "Please ensure that the number of function response parts is equal to the number of function call "
                f"parts of the function call turn: {calls}, {following}"
            )
        if results and (not place or not _names(contents[place - 1], "functionCall")):
            return "Please ensure that function response turn comes immediately after a function call turn."
    return None


def _names(content: Json, kind: str) -> list[str]:
    return [part[kind]["name"] for part in content["parts"] if kind in part]


def _parts(answer: Answer) -> list[Json]:
    found: list[Json] = []
    signature = base64.b64encode(signed(answer.thought).encode()).decode() if answer.thought else None
    for part in answer.parts:
        made = _part(part)
        if made is None:
            continue
        if signature is not None and not isinstance(part, Think):
            made["thoughtSignature"], signature = signature, None
        found.append(made)
    return found


def _part(part: Any) -> Json | None:
    if isinstance(part, Say):
        return {"text": part.text}
    if isinstance(part, Think):
        return {"text": part.text, "thought": True}
    if not isinstance(part.args, dict):
        return None
    return {"functionCall": {"name": part.name, "args": part.args, **({} if part.id is None else {"id": part.id})}}


def _finish(answer: Answer) -> str | None:
    if answer.end == "unsaid":
        return None
    if answer.refusal is not None:
        return "PROHIBITED_CONTENT"
    if answer.end != "done":
        return {"filter": "SAFETY", "recitation": "RECITATION"}.get(answer.end, "MAX_TOKENS")
    return "MALFORMED_FUNCTION_CALL" if any(isinstance(call.args, str) for call in answer.calls) else "STOP"


def _chunk(parts: list[Json], finish: str | None, number: int) -> Json:
    content: Json = {"role": "model", "parts": parts} if parts else {"role": "model"}
    candidate: Json = {"content": content, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 90, "totalTokenCount": 990},
        "modelVersion": "gemini-2.5-pro",
        "responseId": f"r-{number}",
    }
