"""Requests of a conversation carry what no earlier one carried."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.workflows.invocation.conversation import Conversation, earlier_messages

PARAMETERS = ModelRequestParameters()


def says(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answers(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def test_the_first_request_carries_all_messages() -> None:
    conversation = Conversation((), None)
    request = conversation.next_part([says("a")], PARAMETERS)
    assert len(request.messages) == 1
    assert (request.part.number, request.part.after, request.part.base) == (1, None, ())


def test_a_later_request_carries_the_answer_and_what_follows() -> None:
    conversation = Conversation((), None)
    messages: list[ModelMessage] = [says("a")]
    conversation.next_part(messages, PARAMETERS)
    longer = [*messages, answers("b"), says("c")]
    request = conversation.next_part(longer, PARAMETERS)
    assert [type(message) for message in request.messages] == [ModelResponse, ModelRequest]
    assert (request.part.number, request.part.after, request.part.retooled) == (2, 1, False)
    newest = answers("d")
    assert conversation.unsent([*longer, newest]) == [newest]


def test_another_model_gets_the_same_request() -> None:
    conversation = Conversation((), None)
    first = conversation.next_part([says("a")], PARAMETERS)
    assert conversation.next_part([says("a")], PARAMETERS, again=True) is first
    assert conversation.number == 1


def test_messages_that_were_replaced_are_sent_whole_again() -> None:
    conversation = Conversation((), None)
    conversation.next_part([says("a")], PARAMETERS)
    request = conversation.next_part([says("a"), answers("b"), says("c")], PARAMETERS)
    assert len(request.messages) == 3, "the first message is another object, so it may be another message"
    assert request.part.after is None


def test_a_continued_conversation_names_its_base_and_leaves_the_stand_in_unsent() -> None:
    conversation = Conversation(("digest",), None)
    newest = answers("b")
    assert conversation.unsent([earlier_messages(), newest]) == [newest]
    assert conversation.next_part([earlier_messages(), says("c")], PARAMETERS).part.base == ("digest",)


def test_a_run_of_the_workflow_is_full_after_a_hundred_turns() -> None:
    conversation = Conversation((), None)
    for _ in range(99):
        conversation.next_part([says("a")], PARAMETERS)
    assert not conversation.fills_run
    conversation.next_part([says("a")], PARAMETERS)
    assert conversation.fills_run
