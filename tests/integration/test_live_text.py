"""What a model writes can be watched while it writes, and leaves no trace in the history."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from llm_do_temporal.client.views.pending_work import tails
from llm_do_temporal.messages.activities import REQUEST_MODEL
from tests.support.providers.answers import Drop, Failure, Garbage, Gate
from tests.support.providers.provider import FakeProvider, Text, Usage, by_function, fixed
from tests.support.runs.live_tails import EIGHT_WORDS, STREAMED_MODEL, live_tail
from tests.support.runs.place import Place


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
