"""Half characters in answers of models, over HTTP through the adapters of four protocols: the rest is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from tests.support.dialects.answers import Answer, Ask, Json, says
from tests.support.dialects.one_turn import ask_turns
from tests.support.dialects.server import ADAPTERS, Providers

PROMPT: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go.")])]
TOOLS = ModelRequestParameters(
    function_tools=[ToolDefinition(name="write_file", parameters_json_schema={"type": "object"})]
)
ALL = pytest.mark.parametrize("adapter", ADAPTERS)
LIVE = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    with Providers() as providers:
        yield providers


async def asked(providers: Providers, adapter: str, answer: Answer, name: str, live: bool) -> tuple[str, list[Json]]:
    """Return the text and the arguments of an answer that was asked for once."""
    script = f"{name}-{adapter}-{live}"
    (kept,) = await ask_turns(providers.alias(adapter, script, answer), PROMPT, TOOLS, live=live)
    assert providers.scripts[script].streamed == [live]
    return kept.text or "", [part.args_as_dict() for part in kept.parts if isinstance(part, ToolCallPart)]


@LIVE
@ALL
async def test_half_a_character_in_a_text_is_replaced(providers: Providers, adapter: str, live: bool) -> None:
    said = says("Grüße \ud800 ☃ \U0001f600.")
    assert await asked(providers, adapter, said, "text", live) == ("Grüße \ufffd ☃ \U0001f600.", [])


@LIVE
@ALL
async def test_half_a_character_in_a_call_is_replaced(providers: Providers, adapter: str, live: bool) -> None:
    call = says(Ask("write_file", {"path": "/a.txt", "content": ["x\udc00y \U0001f600"]}))
    kept = {"path": "/a.txt", "content": ["x\ufffdy \U0001f600"]}
    assert await asked(providers, adapter, call, "call", live) == ("", [kept])
