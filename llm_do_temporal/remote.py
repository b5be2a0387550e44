"""Runs through the HTTP door, for programs that do not reach Temporal: the same values and errors as everywhere.

async with RemoteClient("http://127.0.0.1:8234", token) as runs:
    run = await runs.start(Start(worker="notes", prompt="buy bread"))
    ended = await runs.result(run.run)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, TypeAdapter

from llm_do_temporal.doors.service import LONGEST_WAIT, RunsPage
from llm_do_temporal.doors.values import Answer, AskedQuestion, Run, RunFile, SentFile, Start, Worker
from llm_do_temporal.errors import (
    AccessRefused,
    ConnectionFailed,
    DecisionRefused,
    LlmDoError,
    RunFailed,
    rebuild_error,
)

__all__ = ["Answer", "AskedQuestion", "RemoteClient", "Run", "RunFile", "SentFile", "Start", "Worker"]

_PATIENCE_SECONDS = 60.0
"""Time for which a door that does not answer is asked again, where asking twice does no harm."""
_PAUSE_SECONDS = 0.5
_BY_STATUS: dict[int, type[LlmDoError]] = {401: AccessRefused, 412: DecisionRefused, 503: ConnectionFailed}
"""Errors that an answer stands for whose code is none of ours."""
T = TypeVar("T")


class RemoteClient:
    """Client of one door, in the name of a token. Methods raise LlmDoError, by the names that it has here, too.

    A request that was lost is sent again where that cannot do anything twice; a start has a key for that.
    """

    def __init__(self, address: str, token: str, *, patience: float = _PATIENCE_SECONDS) -> None:
        """`address` is that of the page, like `http://127.0.0.1:8234`; a door is waited for `patience` seconds."""
        self._patience = patience
        self._http = httpx2.AsyncClient(
            base_url=f"{address.rstrip('/')}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(10.0, read=LONGEST_WAIT + 15),
        )

    async def __aenter__(self) -> RemoteClient:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def workers(self) -> list[Worker]:
        """Return the workers that the token may start."""
        return _read(list[Worker], await self._ask("GET", "/workers"))

    async def start(self, start: Start, *, key: str | None = None) -> Run:
        """Start a run, once for each `key`; None: a new one."""
        headers = {"Idempotency-Key": key or token_urlsafe(16)}
        return _read(Run, await self._ask("POST", "/runs", json=start.model_dump(mode="json"), headers=headers))

    async def run(self, run: str) -> Run:
        """Return the run as it is now, with its result once it has ended."""
        return _read(Run, await self._ask("GET", _path(run)))

    async def wait(self, run: str, seconds: float = LONGEST_WAIT, *, seen: Collection[str] = ()) -> Run:
        """Return the run once it has ended, or asks a question that is not among `seen`, or the seconds are over."""
        params = {"wait": min(seconds, LONGEST_WAIT), "seen": list(seen)}
        return _read(Run, await self._ask("GET", _path(run), params=params))

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

    async def runs(self, *, page: str = "", **wanted: str) -> RunsPage:
        """Return a part of the runs, by the filters `state`, `worker`, `who`, `since`, `until`, `text`, `begins`."""
        return _read(RunsPage, await self._ask("GET", "/runs", params={**wanted, "page": page}))

    async def cancel(self, run: str) -> Run:
        """Ask the run, and everything below it, to stop."""
        return _read(Run, await self._ask("POST", f"{_path(run)}/cancel"))

    async def questions(self, run: str | None = None) -> list[AskedQuestion]:
        """Return the questions that wait, of one run or of all, oldest first."""
        path = "/questions" if run is None else f"{_path(run)}/questions"
        return _read(list[AskedQuestion], await self._ask("GET", path))

    async def question(self, run: str, question: str) -> AskedQuestion:
        """Return one question, decided or not."""
        return _read(AskedQuestion, await self._ask("GET", f"{_path(run)}/questions/{quote(question, safe='')}"))

    async def decide(self, question: AskedQuestion, answer: Answer) -> AskedQuestion:
        """Decide the question as it was read. Raises DecisionRefused, which says who was first."""
        path = f"{_path(question.run)}/questions/{quote(question.id, safe='')}/decision"
        headers = {"If-Match": f'"{question.digest}"'}
        given = answer.model_dump(mode="json")
        return _read(AskedQuestion, await self._ask("POST", path, json=given, headers=headers, again=False))

    async def files(self, run: str) -> list[RunFile]:
        """Return the files that the run was given, and that its file tools have written."""
        return _read(list[RunFile], await self._ask("GET", f"{_path(run)}/files"))

    async def file(self, run: str, file: RunFile) -> bytes:
        """Return the bytes of one of these files; of a written one as it is now."""
        params = {"origin": file.origin, "name": file.name}
        return (await self._ask("GET", f"{_path(run)}/files/content", params=params)).content

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
            await self._ask("GET", _path(run))  # raises where the door does not come back

    async def _events(self, run: str, after: int) -> AsyncGenerator[dict[str, Any] | None]:
        """Yield the events behind a number; None for the end. Raises ConnectionFailed."""
        headers = {"Last-Event-ID": str(after)}
        try:
            async with self._http.stream("GET", f"{_path(run)}/events", headers=headers) as answer:
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

    async def _ask(self, method: str, path: str, *, again: bool = True, **sent: Any) -> httpx2.Response:
        """Send a request, and return the answer; `again`: until the door answers. Raises LlmDoError."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while True:
            try:
                answer = await self._http.request(method, path, **sent)
            except httpx2.TransportError as error:
                if not again or loop.time() > until:
                    raise _unreachable(error) from error
            else:
                if not answer.is_error:
                    return answer
                if not _is_passing(answer) or not again or loop.time() > until:
                    raise _error_of(answer)
            await asyncio.sleep(_PAUSE_SECONDS)


def _path(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"


def _read(kind: type[T], answer: httpx2.Response) -> T:
    return TypeAdapter(kind).validate_json(answer.content)


def _is_passing(answer: httpx2.Response) -> bool:
    """Whether the door, or a proxy before it, says that it cannot answer now; one that leaves answers 500 with text."""
    is_told = "problem+json" in answer.headers.get("content-type", "")
    return answer.status_code in (502, 503, 504) or (answer.status_code == 500 and not is_told)


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
    kind = _BY_STATUS.get(answer.status_code, LlmDoError)
    return rebuild_error(told.code, told.detail, told.next_step) or kind(told.detail, next_step=told.next_step)


def _unreachable(error: httpx2.TransportError) -> ConnectionFailed:
    return ConnectionFailed(
        f"the door does not answer: {type(error).__name__}", next_step="Is `llm-do-temporal ui` or `dev` running there?"
    )
