"""Conversations put together from requests that refer to answers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.activities.models.conversations import Request, WholeConversation
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import ANSWER_MARK, ConversationPart

CALLED = ModelResponse(parts=[ToolCallPart("read", tool_call_id="1")], metadata={ANSWER_MARK: "5.1"})
RESULT = ModelRequest(parts=[ToolReturnPart("read", "text", tool_call_id="1")])


def begun() -> WholeConversation:
    """A conversation of one request, whose instructions stand in its parameters only."""
    parameters = ModelRequestParameters(instruction_parts=[InstructionPart("Be brief.")])
    whole = WholeConversation()
    prompt = ModelRequest(parts=[UserPromptPart("Go.")])
    whole.add(Request(ConversationPart(number=1), [prompt], parameters), [])
    return whole


def second(*more: Any) -> Request:
    """A request that refers to the first answer."""
    said = ModelMessagesTypeAdapter.dump_python([RESULT], mode="json")
    part = ConversationPart(number=2, after=1, answer="5.1", messages=said)
    return Request(part, [ModelRequest(parts=[]), *more], ModelRequestParameters())


def test_an_answer_that_a_request_refers_to_stands_before_what_it_carries() -> None:
    whole = begun()
    whole.answer = CALLED
    whole.add(second(), [])
    _, answer, result = whole.messages
    assert answer.parts == CALLED.parts
    assert answer.metadata is None
    assert result.parts == RESULT.parts
    assert whole.ends == {1: 1, 2: 3}


def test_instructions_that_are_sent_once_are_those_of_each_request() -> None:
    whole = begun()
    whole.answer = CALLED
    whole.add(second(), [])
    requests = [message for message in whole.messages if isinstance(message, ModelRequest)]
    assert [request.instructions for request in requests] == ["Be brief."] * 2


def test_an_unfinished_answer_behind_what_is_carried_stays_there() -> None:
    whole = begun()
    whole.answer = CALLED
    unfinished = ModelResponse(parts=[TextPart("so far")], state="suspended")
    whole.add(second(unfinished), [])
    assert whole.messages[-1].parts == unfinished.parts
    assert whole.ends == {1: 1}


@pytest.mark.parametrize(
    "answer", [None, ModelResponse(parts=[]), ModelResponse(parts=[], metadata={ANSWER_MARK: "4.1"})]
)
def test_another_answer_is_not_taken_for_it(answer: ModelResponse | None) -> None:
    whole = begun()
    whole.answer = answer
    with pytest.raises(ModelFailed, match=r"the answer '5\.1' of this conversation is not in its history"):
        whole.add(second(), [])
