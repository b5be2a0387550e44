"""The events of a run have one order, whoever reads them; what a model writes is read while it is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.views import follower
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.pending_work import tails
from llm_do_temporal.client.views.run_view import ViewEvent
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.testing import Call, call, scripted
from tests.support.dialects.answers import Answer, Ask, Json, Raw, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.one_turn import ask_turns
from tests.support.dialects.server import ADAPTERS, Providers, events_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.providers.answers import Drop, Failure, Garbage, Gate
from tests.support.providers.provider import FakeProvider, Text, Usage, by_function, fixed
from tests.support.runs.parked import EIGHT_WORDS, STREAMED_MODEL, live_tail
from tests.support.runs.place import Place

CHILDREN = 6


async def read(place: Place, run: str, *, follow: bool) -> list[ViewEvent]:
    return [event async for event in place.client.events(run, follow=follow)]


@pytest.mark.thorough
async def test_everybody_reads_the_same_events_in_the_same_order(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine is no run that was reset, whose missing events nobody waits for.
    for patience in ("_PATIENCE_SECONDS", "_LONGEST_SECONDS"):
        monkeypatch.setattr(follower, patience, PATIENCE_SECONDS)
    place.write("a.txt", "one")
    reads: list[list[Call]] = [[call("read_file", path="/a.txt")] for _ in range(4)]
    place.worker("child", scripted(*reads, "Read."), toolsets={"filesystem": {}})
    many = [call("child", input=f"number {number}") for number in range(CHILDREN)]
    place.worker("main", scripted(many, many, "Done."), toolsets={"delegation": {"child": {}}})
    run = await place.start("main", mode="approve_all")
    live = [asyncio.create_task(read(place, run, follow=True)) for _ in range(3)]
    await place.client.result(run)
    after = await read(place, run, follow=False)
    assert {event.path for event in after} == {"", "main", *(f"main/child-{n}" for n in range(1, 2 * CHILDREN + 1))}
    assert len({event.order for event in after}) == len(after)
    for told in live:
        assert await told == after


async def test_what_is_read_late_of_a_child_is_told_although_the_run_has_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.worker("child", scripted("Read."))
    place.worker("main", scripted(call("child", input="x"), "Done."), toolsets={"delegation": {"child": {}}})
    run = await place.start("main", mode="approve_all")
    read_chain, is_behind = follower.read_chain, follower.EventSequence.is_behind
    looks: list[bool] = []
    late = asyncio.Event()

    async def slow(client: Client, workflow_id: str, *args: Any, **more: Any) -> AsyncIterator[HistoryEvent]:
        if workflow_id != run:
            await late.wait()
        async for event in read_chain(client, workflow_id, *args, **more):
            yield event

    async def looked(sequence: follower.EventSequence) -> bool:
        looks.append(await is_behind(sequence))
        if len(looks) == 3:
            late.set()
        return looks[-1]

    with monkeypatch.context() as patched:
        patched.setattr(follower, "read_chain", slow)
        patched.setattr(follower.EventSequence, "is_behind", looked)
        patched.setattr(follower, "_SETTLE_SECONDS", 0.1)
        patched.setattr(follower, "_PATIENCE_SECONDS", PATIENCE_SECONDS)
        told = await read(place, run, follow=True)
    assert looks[:3] == [True] * 3
    assert told == await read(place, run, follow=False)
    assert "main/child-1" in {one.path for one in told}


async def test_an_event_counts_as_read_once_it_was_taken(place: Place) -> None:
    """Nobody may put events in order who still waits for one of them."""
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    await place.client.result(run)
    reader = Follower(place.client.temporal, run, wait=True)
    counted: list[bool] = []
    async for event in reader.events():
        newest = await place.client.temporal.get_workflow_handle(event.order.workflow_id).describe()
        counted.append(reader.has_read(event.order.workflow_id, newest.run_id, event.order.event_id))
    assert counted
    assert not any(counted)


async def test_a_question_does_not_hold_back_what_happened_before_it(place: Place) -> None:
    place.worker("main", scripted(call("write_file", path="/a.txt", content="x"), "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    seen: list[str] = []
    async for event in place.client.events(run, follow=True):
        seen.append(event.type)
        if event.type == "desk.changed" and event.data["pending"]:
            assert "approval.requested" in seen
            await place.decide(run)
    assert seen[-1] == "run.completed"


async def kinds(place: Place, run: str) -> list[str]:
    """The events of the entry worker's history from its turn on, without those of workflow tasks.

    On a busy machine a task may be tried again, and what comes before the turn may take more events.
    """
    (history,) = await place.chain(run)
    begun = (event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events)
    turn = list(begun).index(REQUEST_MODEL.name)
    names = [EventType.Name(event.event_type) for event in history.events[turn:]]
    return [name for name in names if not name.startswith("EVENT_TYPE_WORKFLOW_TASK_")]


async def test_a_turn_can_be_read_while_it_is_written_and_costs_no_event(place: Place, point_at: Any) -> None:
    gate = Gate()
    provider: FakeProvider = point_at(by_function(lambda _: Text(EIGHT_WORDS, Usage(32, 10), gate)))
    place.worker("main", STREAMED_MODEL)
    watched = await place.start("main")
    tail = await live_tail(place, watched)
    assert EIGHT_WORDS.startswith(tail.text)
    assert tail.chars == len(tail.text) < len(EIGHT_WORDS)
    assert (tail.part, tail.attempt) == ("text", 1)
    gate.open()
    result = await place.client.result(watched)
    assert result.output == EIGHT_WORDS
    place.workshop(live_text=False)
    unwatched = await place.start("main")
    assert await place.client.result(unwatched) == result
    assert await kinds(place, watched) == await kinds(place, unwatched)
    assert [request.body.get("stream", False) for request in provider.requests] == [True, False]
    assert await tails(place.client.temporal, await place.client.view(watched)) == {}


async def test_another_attempt_begins_its_text_anew(place: Place, point_at: Any) -> None:
    first, second = Gate(), Gate()
    point_at(fixed(Drop(Text("Never finished, whatever it says.", pause=first)), Text(EIGHT_WORDS, pause=second)))
    place.worker("main", STREAMED_MODEL)
    run = await place.start("main")
    assert "Never".startswith((await live_tail(place, run)).text.partition(" ")[0])
    first.open()
    assert EIGHT_WORDS.startswith((await live_tail(place, run, attempt=2)).text)
    second.open()
    assert (await place.client.result(run)).output == EIGHT_WORDS


@pytest.mark.parametrize(
    "refusal",
    [
        # a server that knows no streams, and one that knows no usage in them
        Failure(400, "Unknown parameter: 'stream'."),
        Failure(422, "stream_options: extra fields not permitted"),
        # one that promises a stream and sends none
        Garbage(b'{"id": "chatcmpl-1", "object": "chat.completion", "choices": []}'),
    ],
)
async def test_a_server_that_cannot_stream_is_asked_without(place: Place, point_at: Any, refusal: Any) -> None:
    provider: FakeProvider = point_at(fixed(refusal, Text("Well."), Text("Again.")))
    place.worker("main", STREAMED_MODEL)
    assert (await place.run("main")).output == "Well."
    assert (await place.run("main")).output == "Again."
    assert [request.body.get("stream", False) for request in provider.requests] == [True, False, False]


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
