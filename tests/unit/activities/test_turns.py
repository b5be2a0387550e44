"""Model turns: what is sent, which failures are final, how an answer is shown, and conversations put together."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import BinaryContent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryFeedbackPart,
    RetryInfo,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models import conversations
from llm_do_temporal.activities.models.builder import NamedModel
from llm_do_temporal.activities.models.conversations import Conversations, Request, WholeConversation
from llm_do_temporal.activities.models.requests import prepared
from llm_do_temporal.activities.models.streams import AnswerTail
from llm_do_temporal.activities.models.turns import ResolveAttachments, TurnModel, TurnStore
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.message_history import BLOB_SCHEME
from llm_do_temporal.messages.conversation import ANSWER_MARK, CONVERSATION_SETTING, ConversationPart
from llm_do_temporal.messages.sizes import LIVE_TEXT_CHARS
from llm_do_temporal.storage.blobs import LocalBlobStore


@pytest.mark.parametrize(
    ("status", "raised"),
    [(RPCStatusCode.RESOURCE_EXHAUSTED, RPCError), (RPCStatusCode.PERMISSION_DENIED, ApplicationError)],
    ids=["passes", "stays"],
)
async def test_a_server_that_is_busy_is_asked_again_and_ends_no_run(
    status: RPCStatusCode, raised: type[Exception]
) -> None:
    def fail(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise RPCError("no history", status, b"")

    with pytest.raises(raised):
        await ActivityEnvironment().run(
            TurnModel(FunctionModel(fail)).request, [ModelRequest([])], None, ModelRequestParameters()
        )


async def test_attempts_that_brought_no_answer_count_for_none_that_made_no_sense() -> None:
    def babble(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise UnexpectedModelBehavior("babble")

    model = ResolveAttachments(TurnStore()).get_wrapper_model(FunctionModel(babble))
    assert model is not None
    lost = 7
    for number, turn in enumerate(("one", "other", "one", "one", "other")):
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, activity_id=turn, attempt=lost + number)
        with pytest.raises(ApplicationError) as raised:
            await environment.run(model.request, [ModelRequest([])], None, ModelRequestParameters())
        assert raised.value.non_retryable == (number == 3)


async def test_two_services_of_one_process_read_the_files_of_their_own_workshops(tmp_path: Path) -> None:
    seen: list[object] = []

    def note(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        part = messages[0].parts[0]
        assert isinstance(part, UserPromptPart)
        seen.extend(item.data for item in part.content if isinstance(item, BinaryContent))
        return ModelResponse([TextPart("seen")])

    stores = [LocalBlobStore(tmp_path / name) for name in ("first", "second")]
    digests = [store.put_bytes(f"the picture of {number}".encode()) for number, store in enumerate(stores)]
    models = [ResolveAttachments(TurnStore(store)).get_wrapper_model(FunctionModel(note)) for store in stores]

    for model, digest in zip(models, digests, strict=True):
        assert model is not None
        picture = ImageUrl(f"{BLOB_SCHEME}{digest}#a.png", media_type="image/png")
        request: list[ModelMessage] = [ModelRequest([UserPromptPart([picture])])]
        await ActivityEnvironment().run(model.request, request, None, ModelRequestParameters())

    assert seen == [b"the picture of 0", b"the picture of 1"]


async def test_a_turn_without_a_store_has_no_files() -> None:
    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise AssertionError

    picture = ImageUrl(f"{BLOB_SCHEME}{'0' * 64}#a.png", media_type="image/png")
    with pytest.raises(ApplicationError, match="no blob store"):
        await ActivityEnvironment().run(
            TurnModel(FunctionModel(answer)).request,
            [ModelRequest([UserPromptPart([picture])])],
            None,
            ModelRequestParameters(),
        )


@pytest.mark.parametrize(
    ("begun", "shown"),
    [
        # what a model has written so far is seldom JSON
        ("{", "read_file {"),
        ('{"path": "/a', 'read_file {"path": "/a'),
        ("no JSON", "read_file no JSON"),
        (None, "read_file "),
        ("", "read_file "),
        ({"path": "/a.txt"}, 'read_file {"path":"/a.txt"}'),
    ],
)
def test_arguments_are_shown_as_far_as_they_are_written(begun: Any, shown: str) -> None:
    tail = AnswerTail(attempt=1)
    tail.take(PartStartEvent(index=0, part=ToolCallPart("read_file", begun)))
    told = tail.live_text()
    assert (told.text, told.part) == (shown, "tool-call")
    if isinstance(begun, str):
        tail.take(PartDeltaEvent(index=0, delta=ToolCallPartDelta(args_delta="…")))
        assert tail.live_text().text == f"{shown}…"


def test_the_tail_says_how_much_of_it_is_text_of_the_part_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = AnswerTail(attempt=1)
    counts: list[tuple[str, int, int]] = []
    parts = [ThinkingPart("hm"), TextPart("one"), ToolCallPart("t", "{}"), TextPart("two")]
    for number, part in enumerate(parts):
        tail.take(PartStartEvent(index=number, part=part))
        tail.take(PartDeltaEvent(index=number, delta=TextPartDelta(content_delta="!")))
        told = tail.live_text()
        counts.append((told.part, told.said, told.part_chars))
    assert counts == [("thinking", 0, 3), ("text", 4, 4), ("tool-call", 4, 5), ("text", 8, 4)]
    tail.take(PartDeltaEvent(index=3, delta=TextPartDelta(content_delta="x" * 10_000)))
    assert tail.live_text().part_chars == len(tail.live_text().text) == LIVE_TEXT_CHARS
    monkeypatch.setenv("TEST_API_KEY", "sk-0123456789abcdef0123")
    tail.take(PartDeltaEvent(index=3, delta=TextPartDelta(content_delta=" sk-0123456789abcdef0123 ")))
    assert "sk-0123" not in tail.live_text().text
    assert tail.live_text().part_chars == 0


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
