"""One turn about a conversation that was kept, over HTTP through the adapter of one protocol."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.activities.models.turns import TurnModel
from llm_do_temporal.messages.conversation import CONVERSATION_SETTING, ConversationPart
from llm_do_temporal.policy.models import ModelAlias, serving_id
from tests.support.dialects.answers import Json

ROOM = {"max_tokens": 20_000}
"""Where Anthropic's library is let have more, it streams on its own account."""


async def ask_turns(
    alias: Json,
    messages: list[ModelMessage],
    parameters: ModelRequestParameters | None = None,
    *,
    live: bool,
    times: int = 1,
    **settings: Any,
) -> list[ModelResponse]:
    """Ask the model of an alias about a conversation, `times` times; return its answers as they are kept."""
    part = ConversationPart(number=1, live=live).model_dump(exclude_defaults=True)
    given: Any = {CONVERSATION_SETTING: part, **ROOM, **settings}

    async def turns() -> list[ModelResponse]:
        model_id = serving_id({"m": ModelAlias(**alias)}, "m")
        model = TurnModel(await build_model(None, model_id))  # pyright: ignore[reportArgumentType]
        return [await model.request(messages, given, parameters or ModelRequestParameters()) for _ in range(times)]

    return await ActivityEnvironment().run(turns)
