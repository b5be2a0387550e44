"""Connections to providers, and the events that are read from them."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
from openai.resources.chat import AsyncCompletions
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import Model, ModelRequestParameters

from llm_do_temporal.activities.models.answer_repairs import EventReader, ServerEvent
from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.policy.models import ModelAlias, serving_id
from tests.support.dialects import anthropic, chat, google, responses
from tests.support.dialects.answers import says
from tests.support.dialects.server import ADAPTERS

DIALECTS: dict[str, ModuleType] = {
    "chat": chat,
    "responses": responses,
    "anthropic": anthropic,
    "google": google,
    "template": chat,
}
TURNS = 4


def of_known_length(body: bytes) -> list[bytes]:
    """The body's headers and all of it at once."""
    return [b"Content-Length: %d\r\n\r\n" % len(body) + body]


def in_chunks(body: bytes) -> list[bytes]:
    """The body in chunks, and its end in a packet of its own, as providers send it."""
    return [b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(body), body), b"0\r\n\r\n"]


def compressed(body: bytes) -> list[bytes]:
    """Chunks of a body that is compressed."""
    return [b"Content-Encoding: gzip\r\n", *in_chunks(gzip.compress(body))]


class Provider:
    """Answers each request in one way, and keeps the task of each connection."""

    def __init__(self, dialect: ModuleType, framed: Callable[[bytes], list[bytes]]) -> None:
        self.open: list[asyncio.Task[None]] = []
        self._dialect = dialect
        self._framed = framed

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until the client closes it."""
        if (serving := asyncio.current_task()) is not None:
            self.open.append(serving)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
                body = {"model": "m", **json.loads(await reader.readexactly(length))}
                streamed = bool(body.get("stream")) or "streamgenerate" in lines[0]
                kind = b"text/event-stream" if streamed else b"application/json"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n" % kind)
                for piece in self._framed(self._body(body, streamed)):
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            """The client has left."""
        finally:
            writer.close()

    def _body(self, body: dict[str, Any], streamed: bool) -> bytes:
        if not streamed:
            return json.dumps(self._dialect.whole(says("Hi."), 1, body)).encode()
        events = [
            f"event: {name}\ndata: {json.dumps(data)}\n\n" if name else f"data: {json.dumps(data)}\n\n"
            for name, data in self._dialect.events(says("Hi."), 1, body)
        ]
        return "".join([*events, "data: [DONE]\n\n" if self._dialect is chat else ""]).encode()


@asynccontextmanager
async def served(provider: Provider) -> AsyncGenerator[str]:
    """The provider's address."""
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for serving in provider.open:
            serving.cancel()
        await asyncio.gather(*provider.open, return_exceptions=True)


async def ask(model: Model, streamed: bool) -> str | None:
    """Return the text of one answer."""
    messages: Any = [ModelRequest.user_text_prompt("Hello.")]
    if not streamed:
        return (await model.request(messages, None, ModelRequestParameters())).text
    async with model.request_stream(messages, None, ModelRequestParameters()) as stream:
        async for _ in stream:
            pass
        return stream.get().text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("framed", [of_known_length, in_chunks, compressed])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("protocol", ADAPTERS)
async def test_all_turns_go_over_one_connection(protocol: str, streamed: bool, framed: Any) -> None:
    provider = Provider(DIALECTS[protocol], framed)
    async with served(provider) as address:
        alias = ModelAlias(model=ADAPTERS[protocol], base_url=address)
        model = await build_model(None, serving_id({"m": alias}, "m"))  # pyright: ignore[reportArgumentType]
        assert [await ask(model, streamed) for _ in range(TURNS)] == ["Hi."] * TURNS
        assert len(provider.open) == 1


async def test_a_turn_needs_no_copy_of_the_client_and_no_transform() -> None:
    alias = ModelAlias(model="openai-chat:gpt-5", base_url="http://127.0.0.1:9")
    model: Any = await build_model(None, serving_id({"m": alias}, "m"))  # pyright: ignore[reportArgumentType]
    client: Any = model.client
    options: dict[str, Any] = {"http_client": client._client, "_extra_kwargs": {}}
    assert client.with_options(**options, max_retries=0) is client
    other: Any = client.with_options(**options, max_retries=2)
    assert (other.max_retries, client.max_retries) == (2, 0)
    kinds: set[type[Any]] = {type(each.chat.completions) for each in (client, other)}
    assert len(kinds) == 1
    assert AsyncCompletions not in kinds


STREAM = 'event: a\ndata: {"x":\ndata:  "é"}\n\n: ping\n\ndata:\n\nid: 1\ndata: [DONE]\n\nevent: b\ndata: last'
EVENTS = [
    ServerEvent(b"a", '{"x":\n "é"}'.encode()),
    ServerEvent(b"", b"[DONE]"),
    ServerEvent(b"b", b"last"),
]


def read(*pieces: bytes) -> list[ServerEvent | bytes]:
    reader = EventReader()
    return [*(event for piece in pieces for event in reader.read(piece)), *reader.rest()]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_events_are_the_same_wherever_a_stream_is_cut(end: str) -> None:
    data = STREAM.replace("\n", end).encode()
    cuts = [(data[:at], data[at:]) for at in range(len(data))]
    single = tuple(data[at : at + 1] for at in range(len(data)))
    with_nothing = tuple(piece for one in single for piece in (one, b""))
    assert [read(*pieces) for pieces in (*cuts, single, with_nothing)] == [EVENTS] * (len(cuts) + 2)


def test_an_event_comes_with_its_empty_line_and_not_later() -> None:
    reader = EventReader()
    assert list(reader.read(b"data: 1\r\r")) == [ServerEvent(b"", b"1")]
    assert list(reader.read(b"\ndata: 2\n\n")) == [ServerEvent(b"", b"2")]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert read(b'data: "a\xff\xc3"\n\n') == [ServerEvent(b"", '"a\ufffd\ufffd"'.encode())]


def test_bare_json_is_passed_on_behind_the_events_before_it() -> None:
    assert read(b'data: 1\n{"error":\r\n {"code": 503}}\n') == [
        ServerEvent(b"", b"1"),
        b'{"error":\n',
        b' {"code": 503}}\n',
        b"\n",
    ]


def test_lines_that_belong_to_no_event_are_nothing() -> None:
    assert read(b"ping\n\nretry: 10\n\nx: {}\n\n") == []


def test_a_written_event_has_no_line_end_that_only_some_libraries_know() -> None:
    event = ServerEvent(b"a", '"\u2028\u2029\u0085"'.encode())
    assert event.written() == b'event: a\ndata: "\\u2028\\u2029\\u0085"\n\n'
