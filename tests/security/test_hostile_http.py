"""Hostile clients of the HTTP door: odd values, doubled headers, streams that nobody reads, hundreds of waits."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from llm_do_temporal.doors.http.app import build_api
from llm_do_temporal.doors.http.requests import MAX_PARTS
from llm_do_temporal.doors.principal import Principal, TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.testing import scripted
from llm_do_temporal.ui import http_server
from tests.support.doors.http_client import PREFIX, Program, person, program
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place
from tests.support.servers.sockets import PATIENCE_SECONDS, ask, everything, request, serving, status_of

WRITE: dict[str, Any] = {"toolsets": {"filesystem": {}}, "export": True}


class WatchedService(DoorService):
    """Service that tells when a stream of events has ended."""

    async def events(self, who: Principal, run: str, *, after: int = 0) -> AsyncGenerator[dict[str, Any]]:
        """See DoorService."""
        self.ended, self.told = asyncio.Event(), 0
        try:
            async for event in super().events(who, run, after=after):
                self.told += 1
                yield event
        finally:
            self.ended.set()


def token(place: Place, name: str = "ada") -> str:
    return TokenFile.of_workshop(place.folder).create(name, frozenset(TokenScope), is_person=True)


def deep(levels: int) -> str:
    return '{"worker": "writer", "input": ' + "[" * levels + "]" * levels + "}"


ODD = {
    "no number": '{"worker": "writer", "input": {"x": NaN}}',
    "no end of a number": '{"worker": "writer", "input": [Infinity, -Infinity]}',
    "a number that overflows": '{"worker": "writer", "input": 1e999}',
    "a number of five thousand digits": '{"worker": "writer", "input": ' + "9" * 5_000 + "}",
    "half a character": r'{"worker": "writer", "prompt": "\ud800"}',
    "half a character deep inside": r'{"worker": "writer", "input": {"a": ["\udfff"]}}',
    "half a character in a key": r'{"worker": "writer", "input": {"\ud800": 1}}',
    "half a character in a name": r'{"worker": "\ud800"}',
    "half a character in a model": r'{"worker": "writer", "model": "\ud800"}',
    "half a character in an item": r'{"worker": "writer", "items": [{"name": "\ud800"}]}',
    "a zero in a name": r'{"worker": "writer\u0000"}',
    "a zero in a file": r'{"worker": "writer", "attachments": [{"name": "a\u0000", "content": ""}]}',
    "a name that is a folder": r'{"worker": "writer", "attachments": [{"name": "..", "content": ""}]}',
    "a thousand levels": deep(1_000),
    "fifty thousand levels": deep(50_000),
    "a bomb": '{"worker": "writer", "params": {"a": ' + "[" * 300 + "]" * 300 + "}}",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
async def test_a_value_that_is_none_starts_nothing(
    place: Place, runs_begun: Callable[[], Awaitable[set[str]]], body: str
) -> None:
    place.worker("writer", scripted("Done."), **WRITE)
    sent = {"Content-Type": "application/json"}
    refused = await person(place).ask("POST", "/runs", content=body.encode(), headers=sent)
    assert (400 <= refused.status < 500, bool(refused.body["detail"])) == (True, True), refused.body
    assert await runs_begun() == set()


DECIDES = '{"decision": "approve", "note": "n"}'
READ_OTHERWISE: dict[str, bytes] = {
    "a decision twice": b'{"decision": "reject", "decision": "approve"}',
    "a decision twice, once with an escape": rb'{"decision": "reject", "d\u0065cision": "approve"}',
    "a key twice inside": b'{"decision": "modify", "args": {"path": "/b.txt", "path": "/c.txt", "content": "x"}}',
    "a key twice in a list": b'{"decision": "approve", "grant": [{"a": 1, "a": 2}]}',
    "UTF-16": DECIDES.encode("utf-16"),
    "UTF-16 with its big end first, and no mark": DECIDES.encode("utf-16-be"),
    "UTF-32": DECIDES.encode("utf-32"),
    "a mark in front": b"\xef\xbb\xbf" + DECIDES.encode(),
    "Latin-1": DECIDES.replace('"n"', '"\xe9"').encode("latin-1"),
    "half of a surrogate pair in UTF-8": DECIDES.replace('"n"', '"\ud800"').encode("utf-8", "surrogatepass"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("body", READ_OTHERWISE.values(), ids=READ_OTHERWISE.keys())
async def test_a_body_that_two_readers_read_otherwise_decides_and_starts_nothing(place: Place, body: bytes) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), **WRITE)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    sent = {"If-Match": (await ada.ask("GET", f"/runs/{run}/questions/a1")).headers["etag"]}
    sent |= {"Content-Type": "application/json"}
    refused = await ada.ask("POST", f"/runs/{run}/questions/a1/decision", content=body, headers=sent)
    assert refused.status == 422, refused.body
    assert "JSON decode error: " in refused.body["detail"]
    assert (await ada.ask("GET", f"/runs/{run}/questions/a1")).body["state"] == "open"
    await place.client.cancel(run)


MILLIONS = {
    "lists": b"[],",
    "objects": b"{},",
    "numbers": b"1,",
    "objects in objects": b'{"":{}},',
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", MILLIONS.values(), ids=MILLIONS.keys())
async def test_a_body_of_millions_of_values_is_not_made_into_them(
    place: Place, runs_begun: Callable[[], Awaitable[set[str]]], value: bytes
) -> None:
    place.worker("writer", scripted("Done."), **WRITE)
    body = b'{"worker": "writer", "input": [' + value * (MAX_PARTS // 2 + 1) * 2 + b"1]}"
    gc.collect()
    before = tracked()
    refused = await person(place).ask("POST", "/runs", content=body, headers={"Content-Type": "application/json"})
    assert (refused.status, "commas and brackets" in refused.body["detail"]) == (422, True)
    assert tracked() - before < 100_000
    assert await runs_begun() == set()


def tracked() -> int:
    """Return the number of objects that there are."""
    return len(gc.get_objects())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("known", [None, "", "lldt_nobody"])
@pytest.mark.parametrize("path", ["/runs", "/runs/x/questions/a1/decision", "/runs/x/forks", "/experiments"])
async def test_nothing_of_a_body_is_read_without_a_token(place: Place, path: str, known: str | None) -> None:
    read: list[int] = []

    async def body() -> AsyncGenerator[bytes]:
        read.append(1)
        yield b"{}"

    sent = {"Content-Type": "application/json"}
    refused = await Program(known, place=place).ask("POST", path, content=body(), headers=sent)
    assert (refused.status, read) == (401, [])


async def test_what_is_packed_is_not_unpacked(place: Place) -> None:
    place.worker("writer", scripted("Done."), **WRITE)
    body = gzip.compress(b'{"worker": "writer", "prompt": "' + b"a" * (100 << 20) + b'"}')
    for kind in ("gzip", "br", "gzip, gzip"):
        sent = {"Content-Type": "application/json", "Content-Encoding": kind}
        refused = await program(place, kind).ask("POST", "/runs", content=body, headers=sent)
        assert refused.status in (400, 422), refused.body


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "If-Match", "Last-Event-ID"])
async def test_a_header_that_is_there_twice_says_nothing(place: Place, name: str) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), **WRITE)
    key = token(place)
    ada = person(place, "bob")
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    tag = (await ada.ask("GET", f"/runs/{run}/questions/a1")).headers["etag"]
    values = {"Authorization": f"Bearer {key}", "Idempotency-Key": "k", "If-Match": tag, "Last-Event-ID": "0"}
    paths = {
        "Authorization": ("GET", f"/runs/{run}"),
        "Idempotency-Key": ("POST", "/runs"),
        "If-Match": ("POST", f"/runs/{run}/questions/a1/decision"),
        "Last-Event-ID": ("GET", f"/runs/{run}/events"),
    }
    bodies = {"Idempotency-Key": {"worker": "writer"}, "If-Match": {"decision": "approve"}}
    method, path = paths[name]
    body = json.dumps(bodies[name]).encode() if name in bodies else b""
    headers = [("Host", "x"), ("Authorization", f"Bearer {key}"), ("Content-Type", "application/json")]
    headers += [(name, values[name])] * (1 if name == "Authorization" else 2)
    api = build_api(DoorService(place.client, place.folder), TokenFile.of_workshop(place.folder))
    async with serving(api) as port:
        answer = await ask(port, request(method, f"{PREFIX}{path}", *headers, body=body))
    assert status_of(answer) == 400, answer
    assert (await ada.ask("GET", f"/runs/{run}/questions/a1")).body["state"] == "open"
    await place.client.cancel(run)


AMBIGUOUS = {
    "two lengths": [("Content-Length", "20"), ("Content-Length", "21")],
    "a length and chunks": [("Content-Length", "20"), ("Transfer-Encoding", "chunked")],
    "chunks in chunks": [("Transfer-Encoding", "chunked, chunked")],
    "chunks with a blank": [("Transfer-Encoding", " chunked")],
    "other chunks": [("Transfer-Encoding", "xchunked")],
    "a name with a blank": [("Content-Length ", "20")],
    "a folded line": [("X-Folded", "a\r\n b")],
    "a hidden request": [("X", "y\r\n\r\nGET /api/v1/runs HTTP/1.1\r\nHost: x")],
    "no size of a chunk": [("Transfer-Encoding", "chunked\r\n\r\nzz\r\n{}\r\n0\r\n")],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_a_request_that_two_readers_read_otherwise_starts_nothing(
    place: Place, runs_begun: Callable[[], Awaitable[set[str]]], headers: list[tuple[str, str]]
) -> None:
    place.worker("writer", scripted("Done."), **WRITE)
    given = [("Host", "x"), ("Authorization", f"Bearer {token(place)}"), ("Content-Type", "application/json")]
    api = build_api(DoorService(place.client, place.folder), TokenFile.of_workshop(place.folder))
    head = "\r\n".join(["POST /api/v1/runs HTTP/1.1", *(f"{name}: {value}" for name, value in given + headers)])
    async with serving(api) as port:
        answer = await ask(port, head.encode() + b'\r\nConnection: close\r\n\r\n{"worker": "writer"}\r\n')
    assert status_of(answer) in (0, 400, 401, 422, 501), answer
    assert await runs_begun() == set()


OVERRIDES = [
    {"X-HTTP-Method-Override": "DELETE"},
    {"X-HTTP-Method": "POST"},
    {"X-Original-URL": "/api/v1/runs"},
    {"X-Rewrite-URL": "/api/v1/runs"},
    {"X-Forwarded-User": "bob", "X-Forwarded-Prefix": "/x", "Forwarded": "for=1.2.3.4;host=evil.example"},
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("headers", OVERRIDES, ids=lambda one: next(iter(one)))
async def test_no_header_makes_another_request_of_one(place: Place, headers: dict[str, str]) -> None:
    place.worker("writer", scripted("Done."), **WRITE)
    ada = person(place)
    assert [one["name"] for one in (await ada.ask("GET", "/workers", headers=headers)).body] == ["writer"]
    started = await ada.ask("POST", "/runs", json={"worker": "writer"}, headers=headers)
    assert (started.status, started.body["started_by"]) == (202, "ada")
    assert started.headers["location"] == f"/api/v1/runs/{started.body['run']}"
    place.started.append(started.body["run"])
    await ada.until(started.body["run"], "completed")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", ["-1", "abc", "1.5", "", "9" * 30, "0x1", "1 2"])
async def test_a_number_of_an_event_that_is_none_is_refused(place: Place, given: str) -> None:
    place.worker("writer", scripted("Done."), **WRITE)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "completed")
    refused = await ada.ask("GET", f"/runs/{run}/events", headers={"Last-Event-ID": given})
    assert refused.status == 422, refused.body
    beyond = [event async for event in ada.events(run, after=10**9)]
    assert [event["event"] for event in beyond] == ["end"]


@pytest.mark.thorough
async def test_a_stream_that_nobody_reads_ends_and_keeps_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "UNREAD_SECONDS", 0.5)
    place.worker("teller", scripted("x" * 20_000), export=True)
    ada = person(place, "bob")
    items = [{"name": f"item {n}", "prompt": "go"} for n in range(30)]
    run = (await ada.start("teller", items=items)).body["run"]
    place.started.append(run)
    await ada.until(run, "completed")
    count = len([event async for event in ada.events(run)]) - 1
    service = WatchedService(place.client, place.folder)
    api = build_api(service, TokenFile.of_workshop(place.folder))
    headers = [("Host", "x"), ("Authorization", f"Bearer {token(place)}")]
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        async with serving(api, kept_bytes=4_096) as port:
            await asyncio.to_thread(deaf.connect, ("127.0.0.1", port))
            deaf.sendall(request("GET", f"{PREFIX}/runs/{run}/events", *headers))
            while not hasattr(service, "ended"):
                assert (await ada.ask("GET", f"/runs/{run}")).status == 200
            await asyncio.wait_for(service.ended.wait(), PATIENCE_SECONDS)
    assert 0 < service.told < count


@pytest.mark.thorough
async def test_hundreds_of_waits_are_answered_and_keep_nobody_out(place: Place) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), **WRITE)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    # Each asks again where its time is over before there is news.
    waits = [asyncio.create_task(ada.until(run, "completed", seen=("a1",))) for _ in range(230)]
    assert (await ada.ask("GET", f"/runs/{run}")).body["state"] == "waiting"
    assert not any(one.done() for one in waits)
    assert (await ada.decide(run, "a1")).status == 200
    assert {body["state"] for body in await asyncio.gather(*waits)} == {"completed"}


async def test_a_stream_tells_nothing_once_its_token_is_taken_back(place: Place) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), **WRITE)
    key = token(place, "victim")
    tokens = TokenFile.of_workshop(place.folder)
    run = (await person(place).start("writer")).body["run"]
    place.started.append(run)
    await place.pending(run)
    headers = (("Host", "x"), ("Authorization", f"Bearer {key}"))
    async with serving(build_api(DoorService(place.client, place.folder), tokens)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("GET", f"{PREFIX}/runs/{run}/events", *headers))
        heard = await asyncio.wait_for(reader.readuntil(b"approval.requested"), PATIENCE_SECONDS)
        tokens.revoke("victim")
        assert (await person(place, "bob").decide(run, "a1")).status == 200
        heard += await everything(reader)
        writer.close()
    assert b"approval.decided" not in heard
    assert b"event: end" not in heard
    assert b"Done." not in heard


async def test_a_broken_file_of_tokens_opens_nothing_and_is_named_in_the_log_alone(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    ada = person(place)
    (place.folder / ".llm-do/tokens.json").write_text("{")
    refused = await ada.ask("GET", "/runs")
    assert (refused.status, str(place.folder) in str(refused.body)) == (401, False)
    assert "nobody's token counts" in caplog.text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["begins", "worker", "who", "text"])
async def test_a_control_character_in_a_filter_is_a_mistake_and_no_outage(place: Place, name: str) -> None:
    refused = await person(place).ask("GET", f"/runs?{name}=%00")
    assert (refused.status, refused.body["code"]) == (422, "UsageError")
    assert "SQL" not in str(refused.body)
