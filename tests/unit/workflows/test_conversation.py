"""Requests of a conversation carry what no earlier one carried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest
from pydantic_ai.messages import (
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.messages.conversation import ANSWER_MARK
from llm_do_temporal.messages.sizes import MAX_VALUE_BYTES
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.workflows.invocation.conversation import (
    TURNS_A_RUN,
    Conversation,
    check_size,
    earlier_messages,
    opening,
)

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


PLAIN = ModelRequestParameters()
OTHER = ModelRequestParameters(allow_text_output=False)
PROMPT = ModelRequest(parts=[UserPromptPart("Go.")], instructions="Be brief.")
ANSWER = ModelResponse(parts=[TextPart("so")], metadata={ANSWER_MARK: "5.1"})
RESULT = ModelRequest(parts=[ToolReturnPart("read", "text", tool_call_id="1")], instructions="Be brief.")


def test_the_first_request_carries_everything() -> None:
    request = Conversation((), 900).next_part([PROMPT], PLAIN)
    assert request.messages == [PROMPT]
    assert request.parameters is PLAIN
    assert (request.part.number, request.part.after, request.part.max_tokens) == (1, None, 900)


@pytest.mark.parametrize(("parameters", "retooled"), [(PLAIN, False), (OTHER, True)])
def test_a_request_that_goes_on_carries_what_is_new(parameters: ModelRequestParameters, retooled: bool) -> None:
    conversation = Conversation((), None)
    conversation.next_part([PROMPT], PLAIN)
    request = conversation.next_part([PROMPT, ANSWER, RESULT], parameters)
    assert [type(message) for message in request.messages] == [ModelResponse, ModelRequest]
    assert (request.part.after, request.part.answer, request.part.retooled) == (1, "5.1", retooled)
    assert request.parameters == parameters  # either way: the same are those of before
    assert request.messages[1].parts == RESULT.parts


@pytest.mark.parametrize(
    "messages",
    [
        [PROMPT],  # nothing new
        [PROMPT, RESULT],  # no answer between
        [replace(PROMPT), ANSWER, RESULT],  # the first is another one, though it looks the same
        [PROMPT, ANSWER, replace(RESULT, instructions="Be long.")],  # other instructions
    ],
)
def test_a_request_that_does_not_go_on_carries_everything(messages: list[ModelMessage]) -> None:
    conversation = Conversation((), None)
    conversation.next_part([PROMPT], PLAIN)
    request = conversation.next_part(messages, PLAIN)
    assert len(request.messages) == len(messages)
    assert (request.part.number, request.part.after) == (2, None)


def test_another_model_gets_the_same_request() -> None:
    conversation = Conversation((), None)
    first = conversation.next_part([PROMPT], PLAIN)
    assert conversation.next_part([PROMPT, ANSWER], OTHER, again=True) is first
    assert conversation.number == 1


def test_what_was_not_sent_is_what_came_since_the_last_request() -> None:
    conversation = Conversation((), None)
    conversation.next_part([PROMPT], PLAIN)
    assert conversation.unsent([PROMPT, ANSWER, RESULT]) == [ANSWER, RESULT]


@pytest.mark.parametrize(("base", "unsent"), [((), [PROMPT, ANSWER]), (("digest",), [ANSWER])])
def test_what_a_base_stands_for_is_not_sent_again(base: tuple[str, ...], unsent: list[ModelMessage]) -> None:
    assert Conversation(base, None).unsent([PROMPT, ANSWER]) == unsent


def test_a_run_is_full_after_so_many_turns() -> None:
    conversation = Conversation((), None)
    for _ in range(TURNS_A_RUN):
        assert not conversation.fills_run
        conversation.next_part([PROMPT], PLAIN)
    assert conversation.fills_run


def test_more_than_a_value_holds_is_refused_before_it_is_sent() -> None:
    check_size([PROMPT], PLAIN)
    with pytest.raises(BudgetExceeded):
        check_size([ModelRequest(parts=[UserPromptPart("x" * MAX_VALUE_BYTES)])])


DIGEST = "ab" * 32


def attached(path: str, media_type: str) -> Attachment:
    return Attachment(path=path, sha256=DIGEST, bytes=7, media_type=media_type)


@pytest.mark.parametrize(
    ("prompt", "given", "expected"),
    [
        ("Evaluate it.", None, "Evaluate it."),
        ("", "Evaluate it.", "Evaluate it."),
        ("", {"deck": "ä.pdf"}, '{\n  "deck": "ä.pdf"\n}'),
        ("Evaluate it.", [1], "Evaluate it.\n\n[\n  1\n]"),
        # false is something, nothing is not
        ("", False, "false"),
        ("", 0, "0"),
        # providers refuse an empty message
        ("", None, "Begin."),
        (" \n", None, "Begin."),
    ],
)
def test_prompt_and_input_are_one_text_and_never_an_empty_one(prompt: str, given: Any, expected: str) -> None:
    assert opening(prompt, given, (), ()) == expected


def test_attachments_are_named_and_referred_to_by_their_digest() -> None:
    content = opening(
        "Look.", None, [attached("/a b.pdf", "application/pdf"), attached("/c.png", "image/png")], ("native", "native")
    )
    assert isinstance(content, list)
    text, named, document, named_too, image = content
    assert text == "Look."
    assert named == "Attached file: /a b.pdf (application/pdf, 7 bytes)"
    assert named_too == "Attached file: /c.png (image/png, 7 bytes)"
    assert isinstance(document, DocumentUrl)
    assert document.url == f"llmdo-blob:sha256/{DIGEST}#/a%20b.pdf"
    assert document.media_type == "application/pdf"
    assert isinstance(image, ImageUrl)
    assert image.media_type == "image/png"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/nl\nx.txt", "/nl\\x0ax.txt"),
        ("/a\u2028\u202eb.txt", "/a\\u2028\\u202eb.txt"),
        ("/c\x1b[2J.txt", "/c\\x1b[2J.txt"),
    ],
)
def test_a_name_of_a_file_adds_no_line_to_the_prompt(name: str, told: str) -> None:
    content = opening("Look.", None, [attached(name, "application/pdf")], ("native",))
    assert isinstance(content, list)
    _, named, document = content
    assert named == f"Attached file: {told} (application/pdf, 7 bytes)"
    assert isinstance(document, DocumentUrl)
    assert unquote(document.url.partition("#")[2]) == told
