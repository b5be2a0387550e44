"""The Python client of the HTTP door, at a real server on a real port that may go away in between."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from inspect import isasyncgen
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llm_do_temporal.doors.http.app import build_api
from llm_do_temporal.doors.principal import TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.errors import (
    AccessRefused,
    ConnectionFailed,
    DecisionRefused,
    LlmDoError,
    RunCancelled,
    UnknownHere,
    UsageError,
)
from llm_do_temporal.extension import added_names
from llm_do_temporal.remote import (
    Answer,
    AskedQuestion,
    RemoteClient,
    RunFile,
    SentFile,
    Start,
)
from llm_do_temporal.testing import scripted
from llm_do_temporal.ui.http_server import AppServer, listen
from tests.support.ports import held_port
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place
from tests.support.servers.sockets import serving

DECK = SentFile.model_validate({"name": "deck.txt", "content": base64.b64encode(b"seven slides")})


@asynccontextmanager
async def door(place: Place, port: int) -> AsyncGenerator[str]:
    """Serve the door at this port, and yield its address."""
    server = AppServer(listen("127.0.0.1", port, what="the door"))
    api = build_api(DoorService(place.client, place.folder), TokenFile.of_workshop(place.folder))
    serving = asyncio.create_task(server.serve(api))
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        await serving


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which nobody listens but a door of the test: no other process is given it meanwhile."""
    with held_port() as port:
        yield port


def ada(place: Place, address: str, *scopes: TokenScope, patience: float = 60) -> RemoteClient:
    token = TokenFile.of_workshop(place.folder).create("ada", frozenset(scopes or TokenScope), is_person=True)
    return RemoteClient(address, token, patience=patience)


def writer(place: Place, *turns: object) -> None:
    place.worker(
        "writer",
        scripted(*(turns or (write_call("/a.txt"), "Done."))),  # pyright: ignore[reportArgumentType]
        toolsets={"filesystem": {}},
        export=True,
    )


async def test_a_program_without_temporal_starts_decides_and_reads(place: Place) -> None:
    writer(place)
    async with door(place, 0) as address, ada(place, address) as runs:
        assert "writer" in [one.name for one in await runs.workers()]
        started = await runs.start(Start(worker="writer", prompt="go", attachments=(DECK,)), key=place.queue)
        again = await runs.start(Start(worker="writer", prompt="go", attachments=(DECK,)), key=place.queue)
        assert again.run == started.run
        place.started.append(started.run)
        assert (await runs.wait(started.run)).state == "waiting"
        (asked,) = await runs.questions(started.run)
        assert asked.task == "go"
        assert (await place.client.approvals(started.run))[0].as_json()["task"] == "go"
        assert [one.task for one in await place.client.questions(started.run)] == ["go"]
        assert (await runs.decide(asked, Answer.model_validate({"decision": "approve"}))).state == "decided"
        with pytest.raises(DecisionRefused, match="by ada"):
            await runs.decide(asked, Answer.model_validate({"decision": "reject"}))
        with pytest.raises(DecisionRefused, match="already decided"):
            await runs.undo(asked)
        with pytest.raises(DecisionRefused, match="shown"):
            await runs.undo(asked.model_copy(update={"digest": "other"}))
        ended = await runs.result(started.run)
        assert (ended.state, ended.output) == ("completed", "Done.")
        files = {one.name: one for one in await runs.files(started.run)}
        assert await runs.file(started.run, files["deck.txt"]) == b"seven slides"
        assert await runs.file(started.run, files["/a.txt"]) == b"hi"
        events = [event["seq"] async for event in runs.events(started.run)]
        assert events == list(range(1, len(events) + 1))
        assert (await runs.question(started.run, "a1")).votes[0].via == "http"


@pytest.mark.thorough
async def test_a_result_is_waited_for_while_more_is_asked_than_one_request_may_name(place: Place) -> None:
    writer(place, [write_call(f"/{number}.txt") for number in range(101)], "Done.")
    async with door(place, 0) as address, ada(place, address) as runs:
        run = (await runs.start(Start(worker="writer", prompt="go"))).run
        place.started.append(run)
        while len(asked := await runs.questions(run)) < 101:
            pass
        seen = [one.id for one in asked]
        assert (await runs.wait(run, 0.1, seen=seen)).state == "waiting"
        assert (await runs.wait(run, seen=[*seen[1:], *(f"b{number}" for number in range(50))])).state == "waiting"
        result = asyncio.create_task(runs.result(run))
        await runs.cancel(run)
        with pytest.raises(RunCancelled):
            await result


@pytest.mark.extension("forks", "review")
async def test_a_program_without_temporal_answers_reviews_and_forks(place: Place) -> None:
    from llm_do_temporal.remote import Fork, ReviewParts

    place.worker(
        "writer",
        scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.", "Pity."),
        toolsets={"filesystem": {}},
        review="changes",
    )
    async with door(place, 0) as address, ada(place, address) as runs:
        run = (await runs.start(Start(worker="writer", prompt="go"))).run
        place.started.append(run)
        await runs.wait(run)
        (head,) = await runs.reviews(run)
        review = await runs.review(run, head.id)
        assert [one.path for one in review.changes] == ["a.txt", "b.txt"]
        assert (await runs.change(review, "a.txt")).hunks[0].lines == ("+hi",)
        assert await runs.changed_file(review, "a.txt") == b"hi"
        assert "+++ b/b.txt" in await runs.patch(run)
        answered = await runs.answer(review, ReviewParts(accept=("a.txt",)))
        assert answered.votes[0].decision == "modify"
        with pytest.raises(DecisionRefused, match="by ada"):
            await runs.answer(review, ReviewParts(all=True))
        assert (await runs.result(run)).output == "Pity."
        assert [one.path for one in (await runs.tree(run)).invocations] == ["main"]
        assert (await runs.transcript(run)).entries[0].kind in ("instructions", "prompt")
        assert (await runs.forecast(run, Fork())).is_free


@pytest.mark.thorough
async def test_a_result_is_waited_for_while_the_door_goes_away_and_comes_back(place: Place, port: int) -> None:
    writer(place)
    token = TokenFile.of_workshop(place.folder).create("ada", frozenset(TokenScope), is_person=True)
    async with RemoteClient(f"http://127.0.0.1:{port}", token) as runs:
        async with door(place, port):
            run = (await runs.start(Start(worker="writer", prompt="go"))).run
            place.started.append(run)
            await runs.wait(run)
            waiting = asyncio.create_task(runs.result(run))
            following = asyncio.create_task(_numbers(runs, run))
            await asyncio.wait({waiting, following}, timeout=0.2)
        await place.decide(run)
        await place.client.result(run)
        assert not waiting.done()
        async with door(place, port):
            assert (await waiting).output == "Done."
            numbers = await following
    assert numbers == list(range(1, len(numbers) + 1))


async def _numbers(runs: RemoteClient, run: str) -> list[int]:
    return [event["seq"] async for event in runs.events(run)]


async def test_errors_are_those_of_the_place_where_they_happened(place: Place) -> None:
    writer(place)
    async with door(place, 0) as address, ada(place, address) as runs:
        with pytest.raises(UnknownHere, match="no run 'nothing'"):
            await runs.run("nothing")
        with pytest.raises(UnknownHere, match="no run"):
            _ = [event async for event in runs.events("nothing")]
        with pytest.raises(UsageError, match="no state"):
            await runs.runs(state="asleep")
        run = (await runs.start(Start(worker="writer", prompt="go"))).run
        place.started.append(run)
        await runs.cancel(run)
        with pytest.raises(RunCancelled):
            await runs.result(run)
    async with door(place, 0) as address:
        async with RemoteClient(address, "lldt_wrong") as runs:
            with pytest.raises(AccessRefused, match="no token"):
                await runs.workers()
        TokenFile.of_workshop(place.folder).revoke("ada")
        async with ada(place, address, TokenScope.READ) as runs:
            with pytest.raises(AccessRefused, match="may not start"):
                await runs.start(Start(worker="writer", prompt="go"))


async def test_a_filter_that_there_is_not_and_a_key_of_another_request_are_mistakes(place: Place) -> None:
    writer(place, "Done.")
    async with door(place, 0) as address, ada(place, address) as runs:
        with pytest.raises(UsageError, match=r"query\.stat") as unknown:
            await runs.runs(stat="completed")
        assert (await runs.runs(schedule="never", evaluations=True)).runs == ()
        assert (unknown.value.next_step or "").startswith("Did you mean 'state'?")
        begun = await runs.start(Start(worker="writer", prompt="go", model="quux:m"), key=place.queue)
        place.started.append(begun.run)
        assert ["quux" in one for one in begun.warnings] == [True]
        with pytest.raises(UsageError, match="used before, with another request"):
            await runs.start(Start(worker="writer", prompt="stop"), key=place.queue)
        await runs.result(begun.run)


async def test_a_door_that_never_comes_is_not_waited_for_any_longer(port: int) -> None:
    async with RemoteClient(f"http://127.0.0.1:{port}", "lldt_x", patience=0) as runs:
        with pytest.raises(ConnectionFailed, match="does not answer"):
            await runs.workers()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, AccessRefused),
        (502, ConnectionFailed),
        (503, ConnectionFailed),
        (504, ConnectionFailed),
        (418, LlmDoError),
    ],
)
async def test_an_answer_that_a_proxy_gives_instead_of_the_door_is_an_error_of_ours(
    status: int, error: type[LlmDoError]
) -> None:
    async with (
        serving(Response("<h1>nginx</h1>", status)) as port,
        RemoteClient(f"http://127.0.0.1:{port}", "lldt_x", patience=0) as runs,
    ):
        with pytest.raises(error, match=str(status)) as raised:
            await runs.workers()
    assert type(raised.value) is error


class Recorder:
    """ASGI application that notes which routes of another one were asked."""

    def __init__(self, api: FastAPI) -> None:
        self._api = api
        self.asked: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        await self._api(scope, receive, send)
        route = scope.get("route")
        if isinstance(route, APIRoute):
            self.asked.add(route.name)


@pytest.mark.extension("evaluations", "forks", "review")
async def test_every_route_of_the_document_has_a_method(place: Place) -> None:
    """Each method is called about a run that is not there: what counts is which route that asks."""
    from llm_do_temporal.remote import ExperimentStart, Fork, ReviewHead, ReviewParts

    api = build_api(DoorService(place.client, place.folder), TokenFile.of_workshop(place.folder))
    head = ReviewHead.model_construct(run="nothing", id="a1", digest="0")
    asked = AskedQuestion.model_construct(run="nothing", id="a1", digest="0")
    given: dict[str, tuple[Any, ...]] = {
        "start": (Start(worker="nobody"),),
        "workers": (),
        "runs": (),
        "questions": (),
        "evaluations": (),
        "experiments": (),
        "question": ("nothing", "a1"),
        "undo": (asked,),
        "review": ("nothing", "a1"),
        "decide": (asked, Answer.model_validate({"decision": "approve"})),
        "change": (head, "a.txt"),
        "changed_file": (head, "a.txt"),
        "answer": (head, ReviewParts(all=True)),
        "file": ("nothing", RunFile(name="a", origin="given", bytes=1, media_type="x")),
        "fork": ("nothing", Fork()),
        "forecast": ("nothing", Fork()),
        "evaluate": (ExperimentStart(evaluation="nothing"),),
        "compare": ("one", "other"),
    }
    recorder = Recorder(api)
    async with serving(recorder) as port, ada(place, f"http://127.0.0.1:{port}", patience=0) as runs:
        public = [name for name in {*dir(RemoteClient), *added_names("RemoteClient")} if not name.startswith("_")]
        assert given.keys() <= set(public)
        for name in public:
            with suppress(LlmDoError):
                told = getattr(runs, name)(*given.get(name, ("nothing",)))
                if isasyncgen(told):
                    await anext(told)
                else:
                    await told
        with suppress(LlmDoError):
            await runs.questions("nothing")
    routes = {one["operationId"] for path in api.openapi()["paths"].values() for one in path.values()}
    assert recorder.asked == routes
