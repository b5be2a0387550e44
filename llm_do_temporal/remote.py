"""Runs through the HTTP door, for programs that do not reach Temporal: the same values and errors as everywhere.

async with RemoteClient("http://127.0.0.1:8234", token) as runs:
    run = await runs.start(Start(worker="notes", prompt="buy bread"))
    ended = await runs.result(run.run)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import suppress
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, TypeAdapter

from llm_do_temporal.doors.service import MAX_WAIT_SECONDS, MOST_SEEN
from llm_do_temporal.doors.values import (
    Answer,
    AskedQuestion,
    Failure,
    Run,
    RunFile,
    RunsPage,
    SentFile,
    SentItem,
    Start,
    Vote,
    Worker,
)
from llm_do_temporal.doors.views import BatchItems, ItemOutcome, RunTree, TranscriptEntry, TranscriptPart, TreeNode
from llm_do_temporal.errors import AccessRefused, ConnectionFailed, LlmDoError, RunFailed, rebuild_error
from llm_do_temporal.extension import Extensible, added_names
from llm_do_temporal.late_names import late_names

__all__ = [
    "Answer",
    "AskedQuestion",
    "BatchItems",
    "Failure",
    "ItemOutcome",
    "RemoteClient",
    "Run",
    "RunFile",
    "RunTree",
    "RunsPage",
    "SentFile",
    "SentItem",
    "Start",
    "TranscriptEntry",
    "TranscriptPart",
    "TreeNode",
    "Vote",
    "Worker",
]
_ADDED = added_names(__name__)
__all__ += [*_ADDED]  # pyright: ignore[reportUnsupportedDunderAll] - those that are installed
__getattr__ = late_names(__name__, _ADDED)

_PATIENCE_SECONDS = 60.0
"""Time for which a door that does not answer is asked again, where asking twice does no harm."""
_PAUSE_SECONDS = 0.5
_WATCH_SECONDS = 2.0
"""Pause between two readings of a run that asks more than one request may name."""
_OF_PROXIES: Mapping[int, type[LlmDoError]] = {401: AccessRefused} | dict.fromkeys((502, 503, 504), ConnectionFailed)
"""Errors by the status of an answer without a `code`: a proxy gives it, as the door's own problems all have one."""
T = TypeVar("T")


class ApiRequests:
    """Requests to one HTTP API, in the name of a token."""

    def __init__(self, address: str, token: str, patience: float) -> None:
        self._patience = patience
        self.http = httpx2.AsyncClient(
            base_url=f"{address.rstrip('/')}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(10.0, read=MAX_WAIT_SECONDS + 15),
        )

    async def begin(self, path: str, key: str | None, given: BaseModel | None = None) -> Run:
        """Start a run, once for each `key`; None: a new one."""
        return await self.post(Run, path, given, **{"Idempotency-Key": key or token_urlsafe(16)})

    async def get(self, kind: type[T], place: str, /, **params: Any) -> T:
        """Return the value at a path."""
        return TypeAdapter(kind).validate_json((await self.ask("GET", place, params=params)).content)

    async def post(
        self, kind: type[T], path: str, given: BaseModel | None = None, *, shown: str | None = None, **headers: str
    ) -> T:
        """Send `given`, and return the answer; where that is about what was `shown`, a digest, it is sent once only."""
        headers |= {} if shown is None else {"If-Match": f'"{shown}"'}
        sent = None if given is None else given.model_dump(mode="json")
        answer = await self.ask("POST", path, json=sent, headers=headers, again=shown is None)
        return TypeAdapter(kind).validate_json(answer.content)

    async def ask(self, method: str, path: str, *, again: bool = True, **sent: Any) -> httpx2.Response:
        """Send a request, and return the answer; `again`: until the door answers. Raises LlmDoError."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while True:
            try:
                answer = await self.http.request(method, path, **sent)
            except httpx2.TransportError as error:
                if not again or loop.time() > until:
                    raise _unreachable(error) from error
            else:
                if not answer.is_error:
                    return answer
                # The door, or a proxy before it, cannot answer now; one that leaves answers 500 with text.
                status, is_told = answer.status_code, "problem+json" in answer.headers.get("content-type", "")
                is_passing = status in (502, 503, 504) or (status == 500 and not is_told)
                if not is_passing or not again or loop.time() > until:
                    raise _error_of(answer)
            await asyncio.sleep(_PAUSE_SECONDS)


class RemoteClient(Extensible):
    """Client of one door, in the name of a token. Methods raise LlmDoError, by the names that it has here, too.

    A request that was lost is sent again where that cannot do anything twice; a start has a key for that.
    """

    def __init__(self, address: str, token: str, *, patience: float = _PATIENCE_SECONDS) -> None:
        """`address` is that of the page, like `http://127.0.0.1:8234`; a door is waited for `patience` seconds."""
        self.requests = ApiRequests(address, token, patience)

    async def __aenter__(self) -> RemoteClient:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        await self.requests.http.aclose()

    async def workers(self) -> list[Worker]:
        """Return the workers that the token may start."""
        return await self.requests.get(list[Worker], "/workers")

    async def start(self, start: Start, *, key: str | None = None) -> Run:
        """Start a run, once for each `key`; None: a new one."""
        return await self.requests.begin("/runs", key, start)

    async def run(self, run: str) -> Run:
        """Return the run as it is now, with its result once it has ended."""
        return await self.requests.get(Run, run_path(run))

    async def wait(self, run: str, seconds: float = MAX_WAIT_SECONDS, *, seen: Collection[str] = ()) -> Run:
        """Return the run once it has ended, or asks a question that is not among `seen`, or the seconds are over.

        With more of these than one request may name, the run is read again and again.
        """
        if len(seen) > MOST_SEEN:
            return await self._watch(run, min(seconds, MAX_WAIT_SECONDS), frozenset(seen))
        return await self.requests.get(Run, run_path(run), wait=min(seconds, MAX_WAIT_SECONDS), seen=list(seen))

    async def _watch(self, run: str, seconds: float, seen: frozenset[str]) -> Run:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            found = await self.run(run)
            if found.ended_at is not None or loop.time() >= until:
                return found
            if found.questions and any(one.id not in seen for one in await self.questions(run)):
                return found
            await asyncio.sleep(_WATCH_SECONDS)

    async def result(self, run: str) -> Run:
        """Wait for the run's end, whoever it waits for, and return it. Raises the error that it ended with."""
        seen: list[str] = []
        while (found := await self.wait(run, seen=seen)).ended_at is None:
            if found.questions:
                seen = [one.id for one in await self.questions(run)]
        if found.error is not None:
            told = found.error
            raise rebuild_error(told.code, told.message, told.next_step) or RunFailed(told.message)
        return found

    async def runs(self, *, page: str = "", **wanted: str | bool) -> RunsPage:
        """Return a part of the runs.

        Filters are `state`, `worker`, `who`, `since`, `until`, `text`, `begins`, `schedule` and `evaluations`.
        """
        return await self.requests.get(RunsPage, "/runs", **wanted, page=page)

    async def cancel(self, run: str) -> Run:
        """Ask the run, and everything below it, to stop."""
        return await self.requests.post(Run, run_path(run, "cancel"))

    async def tree(self, run: str) -> RunTree:
        """Return all invocations of the run, and what each has spent so far."""
        return await self.requests.get(RunTree, run_path(run, "tree"))

    async def transcript(self, run: str, path: str = "main", *, part: str | None = None) -> TranscriptPart:
        """Return the newest part of the conversation of an invocation, or another one, by the `before` of a part."""
        other = {} if part is None else {"part": part}
        return await self.requests.get(TranscriptPart, run_path(run, "transcript"), path=path, **other)

    async def items(self, run: str, *, after: int = 0) -> BatchItems:
        """Return a part of the items of a batch, behind the first `after` of them."""
        return await self.requests.get(BatchItems, run_path(run, "items"), after=after)

    async def retry(self, run: str, *, key: str | None = None) -> Run:
        """Start a run for the items of a batch that failed or were never done, once for each `key`."""
        return await self.requests.begin(run_path(run, "retry"), key)

    async def questions(self, run: str | None = None) -> list[AskedQuestion]:
        """Return the questions that wait, of one run or of all, oldest first."""
        return await self.requests.get(list[AskedQuestion], "/questions" if run is None else run_path(run, "questions"))

    async def question(self, run: str, question: str) -> AskedQuestion:
        """Return one question, decided or not."""
        return await self.requests.get(AskedQuestion, run_path(run, "questions", question))

    async def decide(self, question: AskedQuestion, answer: Answer) -> AskedQuestion:
        """Decide the question as it was read. Raises DecisionRefused, which says who was first."""
        path = run_path(question.run, "questions", question.id, "decision")
        return await self.requests.post(AskedQuestion, path, answer, shown=question.digest)

    async def undo(self, question: AskedQuestion) -> AskedQuestion:
        """Take back one's own decision about the question as it was read. Raises DecisionRefused: it is too late."""
        path = run_path(question.run, "questions", question.id, "undo")
        return await self.requests.post(AskedQuestion, path, shown=question.digest)

    async def files(self, run: str) -> list[RunFile]:
        """Return the files that the run was given, and that its file tools and reviews have written."""
        return await self.requests.get(list[RunFile], run_path(run, "files"))

    async def file(self, run: str, file: RunFile) -> bytes:
        """Return the bytes of one of these files; of a written one as it is now."""
        params = {"origin": file.origin, "name": file.name}
        return (await self.requests.ask("GET", run_path(run, "files", "content"), params=params)).content

    async def events(self, run: str) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of the run as they come, each once, until it ends; goes on where a connection broke off."""
        last = 0
        while True:
            with suppress(ConnectionFailed):
                async for event in self._events(run, last):
                    if event is None:
                        return
                    last = event["seq"]
                    yield event
            await self.requests.ask("GET", run_path(run))  # raises where the door does not come back

    async def _events(self, run: str, after: int) -> AsyncGenerator[dict[str, Any] | None]:
        """Yield the events behind a number; None for the end. Raises ConnectionFailed."""
        headers = {"Last-Event-ID": str(after)}
        try:
            async with self.requests.http.stream("GET", run_path(run, "events"), headers=headers) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise _error_of(answer)
                kind = ""
                async for line in answer.aiter_lines():
                    name, _, value = line.partition(": ")
                    if name == "event":
                        kind = value
                    elif name == "data":
                        yield None if kind == "end" else json.loads(value)
        except httpx2.TransportError as error:
            raise _unreachable(error) from error


def run_path(run: str, *more: str) -> str:
    """Return the path of a run, or of a thing below it."""
    return "/".join(("/runs", *(quote(part, safe="") for part in (run, *more))))


class _Problem(BaseModel):
    code: str = ""
    detail: str = ""
    next_step: str | None = None


def _error_of(answer: httpx2.Response) -> LlmDoError:
    """Return the error that the door tells of, as the class of its name."""
    try:
        told = _Problem.model_validate_json(answer.content)
    except ValueError:
        told = _Problem(detail=f"the door answered with {answer.status_code}, and nothing that can be read")
    kind = _OF_PROXIES.get(answer.status_code, LlmDoError)
    return rebuild_error(told.code, told.detail, told.next_step) or kind(told.detail, next_step=told.next_step)


def _unreachable(error: httpx2.TransportError) -> ConnectionFailed:
    return ConnectionFailed(
        f"the door does not answer: {type(error).__name__}", next_step="Is `llm-do-temporal ui` or `dev` running there?"
    )
