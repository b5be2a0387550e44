"""Content keys of model turns: which parts of a conversation and of a request an answer depends on.

Left out is what no model is told, or what is another value each time for the same words: ids, times, usage, names of
models, and the signatures by which a provider recognises its own thoughts. Ids of tool calls are numbered within their
turn. Files stand as their digests: keys are made before these are resolved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.reuse.keys import said_key

_OF_MESSAGES = frozenset(("parts", "kind"))
"""Fields of a message that count; instructions are taken from the request."""
_NOT_OF_PARTS = frozenset(
    ("timestamp", "id", "signature", "provider_name", "provider_details", "provider_url", "metadata", "tool_call_id")
)
_NOT_OF_CONTENTS = frozenset(("identifier", "_identifier", "vendor_metadata", "metadata"))


@cache
def parameters_adapter() -> TypeAdapter[ModelRequestParameters]:
    """Return the adapter of what a request offers; building it takes some 30 ms."""
    return TypeAdapter(ModelRequestParameters)


def key_of_conversation(messages: Sequence[ModelMessage], before: str = "") -> str:
    """Return the key of a conversation; `before` is that of its beginning, which `messages` continue.

    The messages are taken turn by turn, so that the key is the same however many of them came at once.
    """
    key = before
    for turn in _turns(messages):
        key = said_key(key, _canonical(turn))
    return key


def key_of_offer(parameters: ModelRequestParameters) -> str:
    """Return the digest of tools, output and everything else that a request offers to the model."""
    return digest_of(parameters_adapter().dump_python(parameters, mode="json"))


def _turns(messages: Sequence[ModelMessage]) -> Iterable[list[ModelMessage]]:
    """Return the messages in pieces, of which each but the first begins with an answer."""
    piece: list[ModelMessage] = []
    for message in messages:
        if piece and isinstance(message, ModelResponse):
            yield piece
            piece = []
        piece.append(message)
    if piece:
        yield piece


def _canonical(messages: Sequence[ModelMessage]) -> list[Any]:
    numbers: dict[str, int] = {}
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return [
        {
            name: [_part(part, numbers) for part in value] if name == "parts" else value
            for name, value in message.items()
            if name in _OF_MESSAGES
        }
        for message in cast("list[dict[str, Any]]", dumped)
    ]


def _part(part: Mapping[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    found = {name: value for name, value in part.items() if name not in _NOT_OF_PARTS and value is not None}
    call = part.get("tool_call_id")
    if isinstance(call, str):
        found["call"] = numbers.setdefault(call, len(numbers))
    if "args" in found:
        found["args"] = _arguments(found["args"])
    if part.get("part_kind") == "user-prompt" and isinstance(found.get("content"), list):
        found["content"] = [_content(one) for one in found["content"]]
    return found


def _content(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    given = cast("dict[str, Any]", content)
    return {name: value for name, value in given.items() if name not in _NOT_OF_CONTENTS}


def _arguments(args: Any) -> Any:
    """Return the arguments of a call as an object where they are one: one provider gives a text, another an object."""
    if not isinstance(args, str):
        return args
    try:
        given = json.loads(args)
    except (ValueError, RecursionError):
        return args
    return cast("dict[str, Any]", given) if isinstance(given, dict) else args
