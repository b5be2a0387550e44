"""What one model's adapter is given of a conversation.

A conversation is kept as it was said, with what the agent's loop adds to it: that an answer could not be used, that
there is another tool. No provider has a word for these, and what stands for them differs from provider to provider.
So they are put into words here, by the model that sends, and what comes out is sent and never kept.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelResponse, repair_messages
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    _with_framing_announcement,  # pyright: ignore[reportPrivateUsage] - whoever prepares messages has to call it
)
from pydantic_ai.settings import ModelSettings


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
    said = model.prepare_messages(repair_messages(messages, repair_last_response=ended), parameters)
    return repair_messages(said, repair_last_response=ended), parameters
