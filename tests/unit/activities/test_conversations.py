"""Conversations put together from requests that refer to answers, and the bounded memory that they take."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models import conversations
from llm_do_temporal.activities.models.conversations import Conversations, Request, WholeConversation
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import ANSWER_MARK, CONVERSATION_SETTING, ConversationPart

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


def test_a_request_that_is_tried_again_is_in_the_conversation_once() -> None:
    whole = begun()
    whole.answer = CALLED
    whole.add(second(), [])
    once, sizes = list(whole.messages), list(whole.sizes)
    whole.add(second(), [])
    assert whole.messages == once
    assert whole.sizes == sizes
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


CHARACTERS = 1_000

Alive = Callable[[], ModelMessage | None]


async def seen(memory: Conversations, run: str) -> Alive:
    """A conversation of about 1,000 characters in a run, and whether its message is still in memory."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_run_id=run)
    message: ModelMessage = ModelRequest(parts=[UserPromptPart("x" * CHARACTERS)], instructions="Be brief.")
    part = ConversationPart(number=1).model_dump(mode="json")
    settings: ModelSettings = {CONVERSATION_SETTING: part}  # type: ignore[misc]
    await environment.run(memory.keyed, [message], settings, ModelRequestParameters(), "")
    return weakref.ref(message)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("room", "kept"), [(10, 4), (2.5, 2), (1.5, 1), (0.5, 1)])
async def test_what_was_used_longest_ago_leaves_memory(monkeypatch: pytest.MonkeyPatch, room: float, kept: int) -> None:
    monkeypatch.setattr(conversations, "KEPT_CHARACTERS", int(room * CHARACTERS * 1.02))
    memory = Conversations(None)
    alive = [await seen(memory, f"run-{number}") for number in range(4)]
    gc.collect()
    assert [one() is not None for one in alive] == [False] * (4 - kept) + [True] * kept


async def test_small_conversations_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "KEPT_CONVERSATIONS", 2)
    memory = Conversations(None)
    alive = [await seen(memory, f"run-{number}") for number in range(4)]
    gc.collect()
    assert [one() is not None for one in alive] == [False, False, True, True]


async def test_a_conversation_that_goes_on_was_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "KEPT_CHARACTERS", int(2.5 * CHARACTERS))
    memory = Conversations(None)
    await seen(memory, "first")
    second = await seen(memory, "second")
    again = await seen(memory, "first")
    third = await seen(memory, "third")
    gc.collect()
    assert [one() is not None for one in (second, again, third)] == [False, True, True]
