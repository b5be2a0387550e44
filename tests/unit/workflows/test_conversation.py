"""Requests of a conversation carry what no earlier one carried."""

from __future__ import annotations

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.workflows.invocation.conversation import Conversation, earlier_messages

PARAMETERS = ModelRequestParameters()


def says(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answers(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def test_a_continued_conversation_names_its_base_and_leaves_the_stand_in_unsent() -> None:
    conversation = Conversation(("digest",), None)
    newest = answers("b")
    assert conversation.unsent([earlier_messages(), newest]) == [newest]
    assert conversation.next_part([earlier_messages(), says("c")], PARAMETERS).part.base == ("digest",)
