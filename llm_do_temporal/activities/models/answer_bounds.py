"""Bounds on a provider's answer, in bytes after unpacking.

Owns the hook in the HTTP clients of models that counts what they read, and the failure of a turn that had too much.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, cast

import httpx2
from pydantic_ai.models import Model

from llm_do_temporal.activities.models.answer_repairs import (
    Repairs,
    repaired_body,
    repaired_events,
    repairs_of,
    with_escaped_line_ends,
)
from llm_do_temporal.activities.models.failures import status_of
from llm_do_temporal.activities.runtime.failures import as_failure, causes_of
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import OtherModel

MAX_RESPONSE_BYTES = 32 * 1024 * 1024
"""Largest answer that comes as a whole."""
MAX_STREAM_BYTES = 64 * 1024 * 1024
"""Largest streamed answer, which has some hundred bytes around each word."""
MAX_BATCH_BYTES = 256 * 1024 * 1024
"""Largest file with the answers of a whole batch."""
MAX_STREAMED_CHARS = 8 * 1024 * 1024
"""Most characters of a streamed answer: text, thinking and arguments together."""
_STREAM = "text/event-stream"
_FILE_OF_LINES = "/content"
"""End of the addresses of OpenAI's files, of which a batch has one with its requests and one with its answers."""


_most_whole: ContextVar[int] = ContextVar("most_whole", default=MAX_RESPONSE_BYTES)


@contextmanager
def many_answers() -> Generator[None]:
    """Let answers that come as a whole be as large as the file of a batch."""
    token = _most_whole.set(MAX_BATCH_BYTES)
    try:
        yield
    finally:
        _most_whole.reset(token)


class AnswerTooLarge(Exception):
    """An answer has more bytes than are read; the rest is not read."""


def bounded_model(model: Model) -> Model:
    """Return the model with bounds in its HTTP client; a model without such a client as it is."""
    provider = cast("Any", model.provider)
    client = getattr(provider, "_own_http_client", None)
    if client is not None:
        _bound(client)
    make = getattr(provider, "_http_client_factory", None)
    if make is not None:
        # A client that was closed, or belongs to another event loop, is made anew.
        provider._http_client_factory = lambda: _bound(make())
    return model


@contextmanager
def final_when_too_large(model: str) -> Generator[None]:
    """Let an answer that was too large be a failure that is not tried again, however a library has wrapped it."""
    try:
        yield
    except Exception as error:
        if not any(isinstance(one, AnswerTooLarge) for one in (error, *causes_of(error))):
            raise
        failed = ModelFailed(
            f"model '{model}' answered more than is read: at most {MAX_RESPONSE_BYTES} bytes, {MAX_STREAM_BYTES} as a "
            f"stream, and {MAX_STREAMED_CHARS} characters",
            next_step="Set `max_tokens` in `model_settings`, or choose another model.",
        )
        raise as_failure(failed, other_model=OtherModel.INSTEAD) from None


def _bound(client: Any) -> Any:
    hooks = client.event_hooks
    if _count not in hooks["response"]:
        client.event_hooks = {**hooks, "response": [*hooks["response"], _count]}
    return client


async def _count(response: httpx2.Response) -> None:
    """Have a response unpacked here, piece by piece and counted, before a client puts it together."""
    kind = response.headers.get("content-type", "").lower()
    if _STREAM in kind or "json" in kind:
        # Both are UTF-8, whatever else their header says.
        response.headers["content-type"] = kind = kind.partition(";")[0]
    most = MAX_STREAM_BYTES if _STREAM in kind else _most_whole.get()
    packed = type(response)(response.status_code, headers=response.headers, stream=_Body(response.stream))
    packed.request = response.request
    counted = _Counted(packed, most, repairs_of(response.request.url.path))
    response.stream = _JsonLines(counted) if response.request.url.path.endswith(_FILE_OF_LINES) else counted
    for header in ("content-encoding", "content-length"):
        response.headers.pop(header, None)
    if response.status_code == HTTPStatus.OK and most == MAX_RESPONSE_BYTES:
        # The library would read a whole answer next, and take an error for an answer without its fields.
        response.status_code = status_of(await response.aread()) or response.status_code


class _Body(httpx2.AsyncByteStream):
    """A body on its connection, which is read once: whoever iterates again gets what is left, and nothing at the end.

    A connection that its server has closed is read for ever by whoever begins again behind the end of the body.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pieces = aiter(stream)

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        if isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()
        await self._stream.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, packed: httpx2.Response, most: int, repairs: Repairs | None = None) -> None:
        self._packed = packed
        self._left = most
        self._repairs = None if packed.is_error else repairs
        self._is_stream = _STREAM in packed.headers.get("content-type", "")

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Iterate over what is left, counted and, where its protocol has repairs, repaired."""
        async with aclosing(self._counted()) as counted:
            if self._repairs is None or self._packed.is_stream_consumed:
                async for piece in counted:
                    yield piece
            elif self._is_stream:
                async with aclosing(repaired_events(self._repairs, counted)) as pieces:
                    async for piece in pieces:
                        yield piece
            else:
                yield repaired_body(self._repairs, b"".join([piece async for piece in counted]))

    async def _counted(self) -> AsyncGenerator[bytes]:
        """Iterate over what is left, unpacked the first time, without the byte order mark that some servers begin with.

        Libraries take the first line of a stream with such a mark for an unknown field, and drop its event.
        Libraries that have read the last event of a stream iterate again for what follows it, and drop that: a
        connection whose answer was not read to its end is closed, and the next turn would have to open another.
        """
        rest = cast("httpx2.AsyncByteStream", self._packed.stream)
        pieces = aiter(rest) if self._packed.is_stream_consumed else self._packed.aiter_bytes()
        begins = not self._packed.is_stream_consumed
        try:
            async for piece in pieces:
                self._left -= len(piece)
                if self._left < 0:
                    await self.aclose()
                    raise AnswerTooLarge
                yield piece.removeprefix(BOM_UTF8) if begins else piece
                begins = False
        finally:
            # What unpacks is closed here and now: left to the garbage collector, it may be closed in its middle.
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    async def aclose(self) -> None:
        await self._packed.aclose()


class _JsonLines(httpx2.AsyncByteStream):
    """A file of JSON lines, in which the texts have no character that the library takes for the end of a line."""

    def __init__(self, counted: _Counted) -> None:
        self._counted = counted

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield with_escaped_line_ends(b"".join([piece async for piece in self._counted]))

    async def aclose(self) -> None:
        await self._counted.aclose()
