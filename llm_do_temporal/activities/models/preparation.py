"""Conversations in the form that the adapter of one model takes.

A conversation is kept as it was said, with what the agent's loop adds to it: that an answer could not be used, that
there is another tool. No provider has a word for these, and what stands for them differs from provider to provider.
So they are put into words here, by the model that sends, and what comes out is sent and never kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    _with_framing_announcement,  # pyright: ignore[reportPrivateUsage] - whoever prepares messages has to call it
)
from pydantic_ai.settings import ModelSettings

from llm_do_temporal.activities.models.builder import is_behind_address
from llm_do_temporal.activities.models.call_pairs import paired
from llm_do_temporal.activities.models.plain_tools import with_plain_tools

_CHAT = "OpenAIChatModel"
_ASKED = "#"
"""Stands before the name of a model in the address of its answer."""
_ITEM = "rs_"
"""Begins the id of a thought of OpenAI's responses. Its chat completions would take that for the name of a field."""
_LEFT_OUT = "(What was said before is left out.)"
"""Stands for a user where a conversation would begin with its assistant."""
_NO_INPUT = "(The input is empty.)"
_NO_RESULT = "(The result is empty.)"
_GO_ON = "(Go on.)"
"""Stands for a user who says nothing after an answer."""


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
    messages = repair_messages(paired(list(_portable(model, messages))), repair_last_response=ended)
    said = model.prepare_messages(messages, parameters)
    is_chat = any(kind.__name__ == _CHAT for kind in type(model).__mro__)
    said = [_answer(model, one, is_chat) if isinstance(one, ModelResponse) else one for one in said]
    # A script takes every conversation as it is.
    if model.provider is not None:
        said, parameters = with_plain_tools(model, _without_gaps(said), parameters)
    return repair_messages(said, repair_last_response=ended), parameters


def with_asked(answer: ModelResponse, model: Model) -> ModelResponse:
    """Return the answer; where one address may serve several models, with the name of the one that gave it."""
    if not is_behind_address(model) or not answer.provider_url:
        return answer
    return replace(answer, provider_url=f"{answer.provider_url}{_ASKED}{model.model_name}")


def _portable(model: Model, messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    """Yield the conversation; answers of another server or model with one protocol without what only that one can read.

    These are ids of items, signatures of thoughts, and what server-side tools have done. The library looks at the name
    of the protocol, and would send all of it to every server that speaks it.
    """
    protocol, own = model.system, dict[str, bool]()
    for message in messages:
        if isinstance(message, ModelResponse) and message.provider_name == protocol:
            address, _, asked = (message.provider_url or "").partition(_ASKED)
            message = replace(message, provider_url=address or None)
            if address not in own:
                own[address] = model.accepts_server_state(message)
            yield message if own[address] and asked in ("", model.model_name) else _of_nobody(message)
        else:
            yield message


def _of_nobody(answer: ModelResponse) -> ModelResponse:
    parts: list[Any] = [
        replace(cast("Any", part), provider_name=None) if getattr(part, "provider_name", None) else part
        for part in answer.parts
    ]
    return replace(answer, parts=parts, provider_name=None)


def _answer(model: Model, answer: ModelResponse, is_chat: bool) -> ModelResponse:
    """The answer as it can be sent back: no empty text, no thought that its reader cannot use or that nothing follows.

    A provider refuses these, or its model learns to write them.
    """
    if not any(isinstance(part, ThinkingPart) or _is_blank(part) for part in answer.parts):
        return answer
    parts = [part for part in answer.parts if not _is_blank(part) or _is_signed(model, answer, part, is_chat)]
    while parts and answer.state == "complete" and isinstance(parts[-1], ThinkingPart):
        parts.pop()
    return replace(answer, parts=[_without_item(part) for part in parts] if is_chat else parts)


def _is_blank(part: ModelResponsePart) -> bool:
    return isinstance(part, TextPart | ThinkingPart) and not part.content.strip()


def _is_signed(model: Model, answer: ModelResponse, part: ModelResponsePart, is_chat: bool) -> bool:
    """Whether an empty part has something in it for this model's provider."""
    signed = bool(part.provider_details) or (isinstance(part, ThinkingPart) and bool(part.signature) and not is_chat)
    return signed and model.accepts_stateless_artifacts(answer, part)


def _without_item(part: ModelResponsePart) -> ModelResponsePart:
    is_item = isinstance(part, ThinkingPart) and (part.id or "").startswith(_ITEM)
    return replace(part, id=None) if is_item else part


def _without_gaps(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the conversation with words where nothing is said: it begins with a user, and no text in it is empty."""
    said = [_request(one) if isinstance(one, ModelRequest) else one for one in messages]
    first = next((place for place, one in enumerate(said) if isinstance(one, ModelResponse) and one.parts), len(said))
    if not any(_is_of_user(part) for one in said[:first] for part in one.parts):
        opening = UserPromptPart(_NO_INPUT if first == len(said) else _LEFT_OUT)
        begun = said[0] if said and isinstance(said[0], ModelRequest) else None
        if begun is None:
            said.insert(0, ModelRequest(parts=[opening]))
        else:
            said[0] = replace(begun, parts=[*begun.parts, opening])
    last = said[-1]
    if isinstance(last, ModelRequest) and not last.parts:
        said[-1] = replace(last, parts=[UserPromptPart(_GO_ON)])
    return said


def _is_of_user(part: Any) -> bool:
    """Whether a part of a request becomes the message of a user, and no system text."""
    return not isinstance(part, SystemPromptPart)


def _request(request: ModelRequest) -> ModelRequest:
    """The request without empty prompts, and with words for an empty result."""
    parts = [_full(part) for part in request.parts]
    if all(full is part for full, part in zip(parts, request.parts, strict=True)):
        return request
    return replace(request, parts=[part for part in parts if part is not None])


def _full(part: Any) -> Any:
    """The part without empty texts; None: nothing is left."""
    kind, content = part.part_kind, getattr(part, "content", None)
    if kind == "tool-return":
        return replace(part, content=_NO_RESULT) if _is_empty(content) else part
    if kind not in ("system-prompt", "user-prompt"):
        return part
    if isinstance(content, str):
        return None if _is_empty(content) else part
    given = cast("Sequence[Any]", content)
    contents = [one for one in given if not _is_empty(one)]
    if not contents:
        return None
    return part if len(contents) == len(given) else replace(part, content=contents)


def _is_empty(content: Any) -> bool:
    text = content.content if isinstance(content, TextContent) else content
    return isinstance(text, str) and not text.strip()
