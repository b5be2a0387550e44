"""Chat completions of a server that puts them into the chat template of its model, as vLLM, llama.cpp and Ollama do.

What it refuses is what the templates of Qwen, Llama, Gemma and Mistral refuse, each by itself.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from tests.support.dialects import chat
from tests.support.dialects.answers import Json

failure, whole, events = chat.failure, chat.whole, chat.events


def check(body: Json, headers: Json) -> str | None:
    """What such a server would refuse in a request; None where it is fine."""
    messages: list[Json] = body.get("messages") or []
    return (
        chat.check(body, headers)
        or _wrong_order(messages)
        or _wrong_contents(messages)
        or _wrong_calls(messages, body["model"])
    )


def _wrong_calls(messages: list[Json], model: str) -> str | None:
    ids: list[str] = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    if len(set(ids)) != len(ids):
        return f"ids of calls must be unique: {ids}"
    if not any(name in model.lower() for name in ("mistral", "mixtral", "devstral")):
        return None
    if not all(re.fullmatch(r"[a-zA-Z0-9]{9}", own) for own in ids):
        return "Tool call IDs should be alphanumeric strings with length 9!"
    pairs = pairwise(message["role"] for message in messages)
    return "Unexpected role 'user' after role 'tool'" if ("tool", "user") in pairs else None


def _wrong_order(messages: list[Json]) -> str | None:
    roles = ["system" if message["role"] == "developer" else message["role"] for message in messages]
    if "system" in roles[1:]:
        return "System message must be at the beginning."
    said = roles[1:] if roles[:1] == ["system"] else roles
    if said[:1] != ["user"]:
        return "No user query found in messages."
    for before, role in pairwise(said):
        if before == role != "tool":
            return "Conversation roles must alternate user/assistant/user/assistant/..."
        if role == "tool" and before not in {"assistant", "tool"}:
            return "Unexpected role 'tool' after role 'user'"
    return None


def _wrong_contents(messages: list[Json]) -> str | None:
    for place, message in enumerate(messages):
        content: Any = message.get("content")
        for call in message.get("tool_calls") or ():
            if not re.fullmatch(r"[a-zA-Z0-9_-]+", call["id"]):
                return f"messages[{place}]: invalid id {call['id']!r}"
        if content is None:
            return f'messages[{place}]: can only concatenate str (not "NoneType") to str'
        if not content and message["role"] in {"user", "tool"}:
            return f"messages[{place}]: content is empty"
        if message["role"] != "user" and not isinstance(content, str):
            return f"messages[{place}]: Unexpected item type in content."
    return None
