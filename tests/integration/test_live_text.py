"""What a model writes can be watched while it writes, and leaves no trace in the history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from llm_do_temporal.client.views.live_text import Tail, tails
from tests.integration.conftest import Place
from tests.support.answers import Drop, Failure, Garbage, Gate
from tests.support.provider import FakeProvider, Text, Usage, by_function, fixed

MODEL = "openai-chat:gpt-test"
WORDS = "one two three four five six seven eight"


async def seen(place: Place, run: str, attempt: int = 1) -> Tail:
    """What is being written in the run, once anything is."""
    async with asyncio.timeout(60):
        while True:
            found = await tails(place.client.temporal, await place.client.view(run))
            tail = found.get(f"{run}/main")
            if tail is not None and tail.attempt == attempt:
                return tail


async def kinds(place: Place, run: str) -> list[str]:
    """The events of the entry worker's history."""
    (history,) = await place.chain(f"{run}/main")
    return [EventType.Name(event.event_type) for event in history.events]


async def test_a_turn_can_be_read_while_it_is_written_and_costs_no_event(place: Place, point_at: Any) -> None:
    gate = Gate()
    provider: FakeProvider = point_at(by_function(lambda _: Text(WORDS, Usage(32, 10), gate)))
    place.worker("main", MODEL)
    watched = await place.start("main")
    tail = await seen(place, watched)
    assert WORDS.startswith(tail.text)
    assert tail.chars == len(tail.text) < len(WORDS)
    assert (tail.part, tail.attempt) == ("text", 1)
    gate.open()
    result = await place.client.result(watched)
    assert result.output == WORDS
    place.workshop(live_text=False)
    unwatched = await place.start("main")
    assert await place.client.result(unwatched) == result
    assert await kinds(place, watched) == await kinds(place, unwatched)
    assert [request.body.get("stream", False) for request in provider.requests] == [True, False]
    assert await tails(place.client.temporal, await place.client.view(watched)) == {}


async def test_another_attempt_begins_its_text_anew(place: Place, point_at: Any) -> None:
    first, second = Gate(), Gate()
    point_at(fixed(Drop(Text("Never finished, whatever it says.", pause=first)), Text(WORDS, pause=second)))
    place.worker("main", MODEL)
    run = await place.start("main")
    assert "Never".startswith((await seen(place, run)).text.partition(" ")[0])
    first.open()
    assert WORDS.startswith((await seen(place, run, attempt=2)).text)
    second.open()
    assert (await place.client.result(run)).output == WORDS


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
    place.worker("main", MODEL)
    assert (await place.run("main")).output == "Well."
    assert (await place.run("main")).output == "Again."
    assert [request.body.get("stream", False) for request in provider.requests] == [True, False, False]
