"""Conversations in the form that the adapter of one model takes.

A conversation is kept as it was said, with what the agent's loop adds to it: that an answer could not be used, that
there is another tool. No provider has a word for these, and what stands for them differs from provider to provider.
So they are put into words here, by the model that sends, and what comes out is sent and never kept.
"""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    repair_messages,
)
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    _with_framing_announcement,  # pyright: ignore[reportPrivateUsage] - whoever prepares messages has to call it
)
from pydantic_ai.settings import ModelSettings

from llm_do_temporal.activities.models.plain_calls import plain_name

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Ids of calls that all providers take, but for those that want nine letters, whose profiles say so."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that all providers take, as `plain_name` makes them."""
_OF_CALLS = (ToolCallPart, ToolReturnPart)
"""Parts that are a call, or its result."""
_CHAT = "OpenAIChatModel"
_ITEM = "rs_"
"""Begins the id of a thought of OpenAI's responses. Its chat completions would take that for the name of a field."""


def prepared(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    """The whole conversation, with its files in it, as `model` can be asked; the messages given stay as they are.

    A tool that came in the middle of a conversation is declared like any other. Some providers could be told of it in
    its place, which saves them reading all before it again, but not every server that speaks their protocol can.
    """
    parameters = _with_framing_announcement(replace(parameters, revealed_tool_names=set()), settings)
    # An answer at the end is one that its provider goes on with: nothing in it is missing yet.
    ended = not messages or not isinstance(messages[-1], ModelResponse)
    messages = _plain_calls(repair_messages(messages, repair_last_response=ended))
    said = model.prepare_messages(messages, parameters)
    is_chat = any(kind.__name__ == _CHAT for kind in type(model).__mro__)
    thought = [_thought(message, is_chat) if isinstance(message, ModelResponse) else message for message in said]
    return repair_messages(thought, repair_last_response=ended), parameters


def _plain_calls(messages: list[ModelMessage]) -> list[ModelMessage]:
    """The conversation, its calls and their results with names and ids that every provider takes.

    An answer is kept with such names and ids; one that was kept before, or by another program, may have others.
    """
    return [_with_plain_calls(message) if _has_odd_call(message) else message for message in messages]


def _has_odd_call(message: ModelMessage) -> bool:
    return any(isinstance(part, _OF_CALLS) and not _is_plain(part) for part in message.parts)


def _with_plain_calls(message: ModelMessage) -> ModelMessage:
    parts: list[Any] = [
        replace(cast("Any", part), **_plain_names(part)) if isinstance(part, _OF_CALLS) else part
        for part in message.parts
    ]
    return replace(message, parts=parts)


def _is_plain(part: ToolCallPart | ToolReturnPart) -> bool:
    """Whether a call goes out as it is. Asked of every call in every turn, so it only looks."""
    return _ID.fullmatch(part.tool_call_id) is not None and _NAME.fullmatch(part.tool_name) is not None


def _plain_names(part: ToolCallPart | ToolReturnPart) -> dict[str, str]:
    own = part.tool_call_id
    if _ID.fullmatch(own) is None:
        own = f"call_{sha256(own.encode(errors='surrogatepass')).hexdigest()[:32]}"
    return {"tool_name": plain_name(part.tool_name, ()), "tool_call_id": own}


def _thought(answer: ModelResponse, is_chat: bool) -> ModelResponse:
    """The answer with its thoughts as they can be sent back."""
    if not any(isinstance(part, ThinkingPart) for part in answer.parts):
        return answer
    if answer.state == "complete" and all(isinstance(part, ThinkingPart) for part in answer.parts):
        # Providers refuse a thought that nothing follows.
        return replace(answer, parts=[])
    return replace(answer, parts=[_without_item(part) for part in answer.parts]) if is_chat else answer


def _without_item(part: ModelResponsePart) -> ModelResponsePart:
    is_item = isinstance(part, ThinkingPart) and (part.id or "").startswith(_ITEM)
    return replace(part, id=None) if is_item else part
