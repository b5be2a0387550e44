"""A program at the HTTP door: requests with a token, over ASGI or over a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from llm_do_temporal.doors.http.app import PREFIX, build_api
from llm_do_temporal.doors.principal import TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.testing import scripted
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

ALL = frozenset(TokenScope)
BASE = "http://127.0.0.1:8234"


@dataclass
class Reply:
    """Answer of the door."""

    status: int
    headers: httpx2.Headers
    body: Any


class Program:
    """Client of the door with one token, or with none."""

    def __init__(
        self, token: str | None, *, place: Place | None = None, base: str = BASE, embedded: bool = False
    ) -> None:
        transport = None
        if place is not None:
            service = DoorService(place.client, place.folder, embedded=embedded)
            api = build_api(service, TokenFile.of_workshop(place.folder))
            transport = httpx2.ASGITransport(app=api, raise_app_exceptions=False)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx2.AsyncClient(transport=transport, base_url=base, headers=headers, timeout=120)

    async def ask(self, method: str, path: str, **more: Any) -> Reply:
        """Send one request."""
        got = await self._http.request(method, f"{PREFIX}{path}", **more)
        is_json = "json" in got.headers.get("content-type", "")
        return Reply(got.status_code, got.headers, got.json() if is_json else got.text)

    async def start(self, worker: str, prompt: str = "go", *, key: str | None = None, **more: Any) -> Reply:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.ask("POST", "/runs", json={"worker": worker, "prompt": prompt, **more}, headers=headers)

    async def until(self, run: str, *states: str, seen: tuple[str, ...] = ()) -> Any:
        """Wait until the run is in one of these states."""
        while True:
            got = await self.ask("GET", f"/runs/{run}", params={"wait": 20, "seen": list(seen)})
            assert got.status == 200, got.body
            if got.body["state"] in states:
                return got.body

    async def decide(self, run: str, question: str, decision: str = "approve", **more: Any) -> Reply:
        asked = await self.ask("GET", f"/runs/{run}/questions/{question}")
        headers = {"If-Match": asked.headers.get("etag", '""')}
        path = f"/runs/{run}/questions/{question}/decision"
        return await self.ask("POST", path, json={"decision": decision, **more}, headers=headers)

    async def events(self, run: str, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """Yield the events that the door sends, each with its `id` and `event`, until it ends the answer."""
        headers = {"Last-Event-ID": str(after)}
        async with self._http.stream("GET", f"{PREFIX}/runs/{run}/events", headers=headers) as answer:
            assert answer.status_code == 200
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if line and name:
                    fields[name] = value
                elif fields:
                    yield {**fields, "data": json.loads(fields["data"])}
                    fields = {}


def person(place: Place, name: str = "ada", scopes: frozenset[TokenScope] = ALL) -> Program:
    """Return a client with a new token of a person."""
    return Program(TokenFile.of_workshop(place.folder).create(name, scopes, is_person=True), place=place)


def program(place: Place, name: str = "ci", scopes: frozenset[TokenScope] = ALL, *, embedded: bool = False) -> Program:
    """Return a client with a new token of a program; `embedded`: of a door beside the worker service."""
    token = TokenFile.of_workshop(place.folder).create(name, scopes, is_person=False)
    return Program(token, place=place, embedded=embedded)


def writer(place: Place) -> None:
    """Write an exported worker that asks before it writes a file."""
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), toolsets={"filesystem": {}}, export=True)


async def waiting(place: Place, who: Program) -> str:
    """Return a run of this program that waits for its first question."""
    run = (await who.start("writer")).body["run"]
    place.started.append(run)
    await place.pending(run)
    return run
