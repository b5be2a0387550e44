"""The offline models of the package: their names, what they answer, and how it is streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.offline import offline_model
from llm_do_temporal.policy.models import OFFLINE_MODELS
from tests.support.providers.offline_answers import TEXT, WRITE, Talk, offering, tool, wanting

READ = tool("read_file", path=TEXT, max_chars={"type": "integer"})
REJECTED = "Rejected by ada: "


async def called(talk: Talk) -> tuple[str, dict[str, Any]]:
    """The one call of the next answer: the tool, and its arguments."""
    (call,) = await talk.calls()
    return call.tool_name, call.args_as_dict()


def text_file(content: str, *, truncated: bool = False) -> str:
    return json.dumps({"content": content, "truncated": truncated, "total_chars": len(content)})


def test_every_name_has_a_model_that_says_it_is_a_script() -> None:
    for name in OFFLINE_MODELS:
        model = offline_model(name)
        assert (model.system, model.model_name) == ("offline", f"{name}-script")
        assert model.profile.get("supports_document_input")


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ModelFailed, match="no offline model 'offline:gpt'") as failure:
        offline_model("gpt")
    assert all(f"offline:{name}" in str(failure.value) for name in OFFLINE_MODELS)


async def test_echo_answers_with_the_prompt() -> None:
    assert await Talk(offline_model("echo"), ModelRequestParameters(), "one two").text() == "one two"


async def test_echo_puts_the_prompt_into_a_structured_answer() -> None:
    schema = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
    (answer,) = await Talk(offline_model("echo"), wanting(schema), "one two").calls()
    assert answer.args_as_dict() == {"reply": "one two"}


async def test_the_greeter_is_friendly_and_honest() -> None:
    text = await Talk(offline_model("greeter"), ModelRequestParameters(), "hi from Ada").text()
    assert 'You said: "hi from Ada".' in text
    assert "not from a language model" in text


async def test_a_streamed_answer_is_the_same_in_pieces() -> None:
    agent = Agent(offline_model("greeter"))
    whole = (await agent.run("hello there")).output
    async with agent.run_stream("hello there") as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert len(pieces) > 5
    assert "".join(pieces) == whole
    (request,) = [message for message in stream.all_messages() if isinstance(message, ModelResponse)]
    assert request.usage.input_tokens > 0
    assert isinstance(request.parts[0], TextPart)


class TestNotes:
    @pytest.fixture
    def talk(self) -> Talk:
        return Talk(offline_model("notes"), offering(READ, WRITE), "buy  bread\n")

    @pytest.mark.parametrize(("before", "after"), [("", "- buy bread\n"), ("- milk", "- milk\n- buy bread\n")])
    async def test_it_keeps_the_lines_that_are_there(self, talk: Talk, before: str, after: str) -> None:
        assert (await called(talk))[0] == "read_file"
        talk.reply(text_file(before))
        assert await called(talk) == ("write_file", {"path": "/notes.md", "content": after})
        talk.reply(json.dumps({"path": "/notes.md"}))
        assert f"{after.count('- ')} note" in await talk.text()

    async def test_a_file_that_does_not_exist_is_begun(self, talk: Talk) -> None:
        await talk.calls()
        talk.reply(RuntimeError("'/notes.md' does not exist"))
        assert (await called(talk))[1]["content"] == "- buy bread\n"

    @pytest.mark.parametrize(
        "answer", [text_file("- a\n", truncated=True), RuntimeError("'/notes.md' is not UTF-8 text")]
    )
    async def test_what_it_could_not_read_whole_is_not_overwritten(self, talk: Talk, answer: Any) -> None:
        await talk.calls()
        talk.reply(answer)
        assert "othing was written" in await talk.text()

    async def test_a_reason_that_names_no_file_ends_it(self, talk: Talk) -> None:
        await talk.calls()
        talk.reply(text_file(""))
        await talk.calls()
        talk.reply(REJECTED + "not today")
        assert f"The note is not saved: {REJECTED}not today" in await talk.text()

    async def test_it_does_not_claim_what_a_person_changed(self, talk: Talk) -> None:
        await talk.calls()
        talk.reply(text_file(""))
        await talk.calls()
        changed = "ada changed this call before it ran."
        talk.reply(json.dumps({"result": {"path": "/b.md"}, "note": changed}))
        text = await talk.text()
        assert changed in text
        assert "The new one" not in text

    async def test_without_files_it_says_what_it_lacks(self) -> None:
        assert "no tool to write" in await Talk(offline_model("notes"), offering(), "hi").text()


class TestByHand:
    async def test_it_makes_the_calls_of_the_prompt_in_their_order(self) -> None:
        prompt = 'Please:\nread_file /a.md\nwrite_file {"path": "/b.md", "content": "x"}'
        talk = Talk(offline_model("by-hand"), offering(READ, WRITE), prompt)
        assert await called(talk) == ("read_file", {"path": "/a.md"})
        talk.reply("one")
        assert await called(talk) == ("write_file", {"path": "/b.md", "content": "x"})
        talk.reply(REJECTED + "no")
        assert (await talk.text()).startswith(f"read_file: one\nwrite_file: {REJECTED}no\n")

    async def test_without_a_call_it_names_the_tools(self) -> None:
        assert (
            "Tools: read_file, write_file." in await Talk(offline_model("by-hand"), offering(READ, WRITE), "go").text()
        )
