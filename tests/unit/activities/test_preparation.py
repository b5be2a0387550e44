"""What the adapter of a model is given of a conversation, and what stays as it was."""

from __future__ import annotations

from copy import deepcopy

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.activities.models.builder import NamedModel
from llm_do_temporal.activities.models.preparation import prepared

HELPER = ToolDefinition(name="helper", parameters_json_schema={"type": "object", "properties": {}})
PARAMETERS = ModelRequestParameters(
    function_tools=[HELPER], introduced_tool_names={"helper"}, revealed_tool_names={"helper"}
)
FEEDBACK = RetryFeedbackPart("Please return text.", retry=RetryInfo(cause="no_output"))
CONVERSATION: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart("Go.")]),
    ModelResponse(parts=[]),
    ModelRequest(parts=[FEEDBACK, ToolAvailabilityDeltaPart(tools_added=["helper"])]),
]


def kinds(messages: list[ModelMessage]) -> set[str]:
    return {part.part_kind for message in messages for part in message.parts}


def test_what_no_provider_knows_is_put_into_words_and_the_conversation_stays_as_it_was() -> None:
    before = deepcopy(CONVERSATION)
    messages, parameters = prepared(TestModel(), CONVERSATION, None, PARAMETERS)
    assert kinds(messages) <= {"user-prompt", "system-prompt", "tool-availability-delta"}
    assert "Please return text." in str(messages)
    assert parameters.revealed_tool_names == set()
    assert PARAMETERS.revealed_tool_names == {"helper"}
    assert before == CONVERSATION


def test_a_workflow_prepares_nothing() -> None:
    model = NamedModel("anthropic:claude-sonnet-5-5")
    assert model.prepare_messages(CONVERSATION, PARAMETERS) is CONVERSATION


def test_an_answer_that_its_provider_goes_on_with_stays_open() -> None:
    call = ToolCallPart("helper", {}, tool_call_id="c1")
    unfinished = ModelResponse(parts=[TextPart("so far"), call], state="suspended")
    messages, _ = prepared(TestModel(), [*CONVERSATION, unfinished], None, PARAMETERS)
    assert messages[-1].parts == unfinished.parts


def test_a_call_without_a_result_gets_one() -> None:
    called = ModelResponse(parts=[ToolCallPart("helper", {}, tool_call_id="c1")])
    messages, _ = prepared(TestModel(), [*CONVERSATION, called, CONVERSATION[0]], None, PARAMETERS)
    assert "tool-return" in kinds(messages)


def test_a_thought_that_nothing_follows_is_not_sent_back() -> None:
    thought = ModelResponse(parts=[ThinkingPart("Hm.", signature="x")])
    messages, _ = prepared(TestModel(), [*CONVERSATION[:1], thought, CONVERSATION[0]], None, PARAMETERS)
    assert "thinking" not in kinds(messages)
    assert "thinking" in kinds([thought])
