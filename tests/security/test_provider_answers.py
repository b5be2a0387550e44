"""Providers whose answers have no end, or are larger than they look, and providers that set their own price."""

from __future__ import annotations

import sys
import threading
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import AsyncGeneratorType
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.usage import RequestUsage
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.models.builder import NamedModel, build_model
from llm_do_temporal.activities.models.failures import MAX_STREAM_BYTES, final_when_too_large
from llm_do_temporal.activities.models.usage import priced
from llm_do_temporal.errors import RunFailed
from llm_do_temporal.policy.models import ModelAlias, serving_id
from tests.support.runs.place import Place

pytestmark = pytest.mark.asyncio(loop_scope="session")
MEGABYTES = 2 * MAX_STREAM_BYTES >> 20
ADAPTERS = ("openai-chat:gpt-4o", "openai-responses:gpt-4o", "anthropic:claude-sonnet-5-5", "google:gemini-2.5-pro")
KINDS = ("gzip", "deflate", "plain", "error")


@cache
def packed(bits: int) -> bytes:
    """JSON that is some kilobytes on the wire."""
    packing = zlib.compressobj(9, zlib.DEFLATED, bits)
    middle = b"".join(packing.compress(b"x" * (1 << 20)) for _ in range(MEGABYTES))
    return packing.compress(b'{"id":"1","pad":"') + middle + packing.compress(b'"}') + packing.flush()


class Endless(BaseHTTPRequestHandler):
    """Answers with far too much, as the address says."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called above
        """Nothing is printed."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        kind = self.path.split("/")[1]
        streams = kind in {"stream", "pings", "line"}
        self.send_response(400 if kind == "error" else 200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        if kind in {"gzip", "deflate"}:
            self.send_header("Content-Encoding", kind)
        self.end_headers()
        try:
            if kind in {"gzip", "deflate"}:
                self.wfile.write(packed(31 if kind == "gzip" else 15))
                return
            piece = {"stream": b"event: x\ndata: {}\n\n", "pings": b": ping\n\n", "line": b"x"}.get(kind, b"x")
            self.wfile.write(b"data: " if kind == "line" else b'{"pad":"' if not streams else b"")
            for _ in range(MEGABYTES):
                self.wfile.write(piece * ((1 << 20) // len(piece)))
        except OSError:
            """The client has had enough."""


@pytest.fixture(scope="module")
def endless() -> Iterator[str]:
    """The address of a provider without measure."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def unpackers() -> Generator[list[AsyncGeneratorType[Any, Any]]]:
    """The generators that read answers meanwhile."""
    found: list[AsyncGeneratorType[Any, Any]] = []
    hooks = sys.get_asyncgen_hooks()

    def noted(generator: Any) -> None:
        if generator.__qualname__.startswith("Response.aiter"):
            found.append(generator)
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    sys.set_asyncgen_hooks(firstiter=noted)
    try:
        yield found
    finally:
        sys.set_asyncgen_hooks(firstiter=hooks.firstiter)


async def asked(model: Model, stream: bool) -> None:
    messages: Any = [ModelRequest.user_text_prompt("Hi.")]
    settings: Any = {"max_retries": 0}
    with final_when_too_large("m"):
        if not stream:
            await model.request(messages, settings, ModelRequestParameters())
            return
        async with model.request_stream(messages, settings, ModelRequestParameters()) as events:
            async for _ in events:
                pass


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_more_than_an_answer_is_not_read_and_not_asked_for_again(endless: str, adapter: str, kind: str) -> None:
    alias = ModelAlias(model=adapter, base_url=f"{endless}/{kind}")
    model = await build_model(None, serving_id({"m": alias}, "m"))  # pyright: ignore[reportArgumentType]
    with unpackers() as found, pytest.raises(ApplicationError, match="more than is read") as failed:
        await asked(model, kind in {"stream", "pings", "line"})
    assert failed.value.non_retryable
    # None is left to the garbage collector, which may close it in its middle.
    assert found
    assert all(generator.ag_frame is None for generator in found)


@pytest.mark.parametrize("live", [True, False])
async def test_a_run_ends_at_the_first_such_answer(place: Place, endless: str, live: bool) -> None:
    alias = {"model": "openai-chat:gpt-4o", "base_url": f"{endless}/gzip"}
    place.workshop(model="m", live_text=live, models={"m": alias})
    place.worker("w")
    with pytest.raises(RunFailed, match="more than is read"):
        await place.run("w")


def said(model: str, **more: Any) -> ModelResponse:
    """What a provider says that it did."""
    usage = RequestUsage(input_tokens=1000, output_tokens=1000, cost=more.pop("cost", None))
    return ModelResponse(parts=[TextPart("x" * 400)], usage=usage, model_name=model, provider_name="openai", **more)


@pytest.mark.parametrize(
    "answer",
    [
        said("tts-1"),
        said("whisper-1"),
        said("moderation"),
        said("text-embedding-3-small"),
        said("gpt-5-nano"),
        said("gpt-4o-mini"),
        said("no such model"),
        said(""),
        said("gpt-4o", cost=Decimal(0)),
        said("gpt-5-nano", cost=Decimal("0.0000001")),
        said("gpt-4o", provider_details={"service_tier": "flex"}),
        said("gpt-4o", provider_details={"service_tier": "batch"}),
    ],
    ids=lambda answer: f"{answer.model_name or 'none'}-{answer.usage.cost}-{answer.provider_details}",
)
async def test_who_answers_does_not_set_the_price(answer: ModelResponse) -> None:
    known = priced(said("gpt-4o")).usage.cost
    found = priced(answer, NamedModel("openai-chat:gpt-4o")).usage.cost
    assert known is not None
    assert found is not None
    assert found >= known


@pytest.mark.control
async def test_a_dearer_model_that_answered_is_what_it_costs() -> None:
    dear = priced(said("gpt-4")).usage.cost
    assert priced(said("gpt-4"), NamedModel("openai-chat:gpt-4o-mini")).usage.cost == dear
