"""Streams as the standard of server-sent events allows them, over HTTP through the adapters of four protocols."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from tests.support.dialects.answers import Answer, Ask, Json, Raw, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ask_turns
from tests.support.dialects.server import ADAPTERS, Providers, events_of

Event = tuple[str | None, Json]
Write = Callable[[Event], str]

TEXT = "Grüße ☃ \u2028 \u2029 \u0085 \x1c 日本 🎈."
ANSWER = says(TEXT, Ask("write_file", {"path": "/ü\u2028☃"}))
PROMPT: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go.")])]
TOOLS = ModelRequestParameters(
    function_tools=[ToolDefinition(name="write_file", parameters_json_schema={"type": "object"})]
)
ALL = pytest.mark.parametrize("adapter", ADAPTERS)


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    with Providers() as providers:
        yield providers


def usual(event: Event) -> str:
    return f"{_named(event)}data: {json.dumps(event[1])}\n\n"


def _named(event: Event) -> str:
    return f"event: {event[0]}\n" if event[0] else ""


def stream(adapter: str, answer: Answer, write: Write = usual, *, before: str = "", done: str = "") -> str:
    """Return the stream of an answer, event by event, with the end that OpenAI's chat has."""
    end = done or ("data: [DONE]\n\n" if adapter in ("chat", "template") else "")
    return before + "".join(map(write, events_of(adapter, answer))) + end


def in_lines(event: Event) -> str:
    data = json.dumps(event[1], indent=1).split("\n")
    return _named(event) + "".join(f"data: {line}\n" for line in data) + "\n"


WRITTEN: dict[str, Write] = {
    "no blank": lambda event: f"{_named(event)}data:{json.dumps(event[1])}\n\n",
    "ids": lambda event: f"id: 7\nretry: 10\n{usual(event)}",
    "comments between": lambda event: f"{usual(event)}: ping\n\n",
    "comments within": lambda event: f"{usual(event)[:-1]}: keep-alive\n\n",
    "no data": lambda event: f"{usual(event)}data:\n\ndata: \n\ndata\n\nevent: heartbeat\ndata:\n\n",
    "unknown fields": lambda event: f"x-note: 1\nheartbeat\n{usual(event)}",
    "several lines": in_lines,
    "letters as they are": lambda event: f"{_named(event)}data: {json.dumps(event[1], ensure_ascii=False)}\n\n",
    "more empty lines": lambda event: f"\n\n{usual(event)}\n\n",
}
FORMS: dict[str, Callable[[str], Raw]] = {
    **{
        name: lambda adapter, write=write: Raw(stream(adapter, ANSWER, write).encode())
        for name, write in WRITTEN.items()
    },
    "comment first": lambda adapter: Raw(stream(adapter, ANSWER, before=": OPENROUTER PROCESSING\n\n").encode()),
    "byte order mark": lambda adapter: Raw(stream(adapter, ANSWER, before="\ufeff").encode()),
    "CR LF": lambda adapter: Raw(stream(adapter, ANSWER).replace("\n", "\r\n").encode()),
    "CR": lambda adapter: Raw(stream(adapter, ANSWER).replace("\n", "\r").encode()),
    "CR until closed": lambda adapter: Raw(stream(adapter, ANSWER).replace("\n", "\r").encode(), sized=False),
    "done everywhere": lambda adapter: Raw(stream(adapter, ANSWER, done="data: [DONE]\n\n").encode()),
    "done without an end": lambda adapter: Raw(stream(adapter, ANSWER, done="data: [DONE]").encode(), sized=False),
    "another encoding in its header": lambda adapter: Raw(
        stream(adapter, ANSWER, WRITTEN["letters as they are"]).encode(), "text/event-stream; charset=iso-8859-1"
    ),
    "capitals in its header": lambda adapter: Raw(stream(adapter, ANSWER).encode(), "Text/Event-Stream"),
    "calls itself JSON": lambda adapter: Raw(
        stream(adapter, ANSWER, WRITTEN["comments between"]).encode(), "application/json"
    ),
}
GRAVE = ("CR until closed", "comments between", "no data", "letters as they are", "done without an end")
"""Forms that every adapter reads in each run of the tests."""


@ALL
async def test_a_stream_is_read_however_its_lines_are_written(providers: Providers, adapter: str) -> None:
    found: dict[str, object] = {}
    for form, sent in cases_of(FORMS, adapter, live=True, every=GRAVE).items():
        name = f"{adapter}-{form.replace(' ', '-')}"
        (answer,) = await ask_turns(providers.alias(adapter, name, sent(adapter)), PROMPT, TOOLS, live=True)
        paths = [part.args_as_dict()["path"] for part in answer.parts if isinstance(part, ToolCallPart)]
        found[form] = (answer.text, paths, providers.scripts[name].streamed)
    assert found == dict.fromkeys(found, (TEXT, ["/ü\u2028☃"], [True]))
