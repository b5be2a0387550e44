"""What of an activity's heartbeats reaches the server, also while a large result waits for the blob store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput

from llm_do_temporal.activities import heartbeats
from llm_do_temporal.activities.heartbeats import HeartbeatInterceptor
from llm_do_temporal.big_payloads import KEPT_FROM_BYTES
from llm_do_temporal.errors import BlobsUnreachable

NO_CLIENT = cast("Client", None)
"""Nothing here begins late, so the server is not asked."""


class Inner(ActivityInboundInterceptor):
    """The activity itself, which answers once; keeps what it would beat with."""

    def __init__(self, answer: str = "") -> None:
        self.outbound: ActivityOutboundInterceptor | None = None
        self.answers = [answer]

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """See ActivityInboundInterceptor."""
        self.outbound = outbound

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        """See ActivityInboundInterceptor."""
        return self.answers.pop()

    def heartbeat(self, *details: Any) -> None:
        """Beat."""
        assert self.outbound is not None
        self.outbound.heartbeat(*details)


class Server(ActivityOutboundInterceptor):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, ...]] = []
        self.beat = threading.Event()

    def heartbeat(self, *details: Any) -> None:
        """See ActivityOutboundInterceptor."""
        self.got.append(details)
        self.beat.set()


def beaten(*beats: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What the server gets of these heartbeats of one activity."""
    inner, server = Inner(), Server()
    HeartbeatInterceptor(NO_CLIENT).intercept_activity(inner).init(server)
    for details in beats:
        inner.heartbeat(*details)
    return server.got


def test_an_activity_that_has_just_begun_tells_nothing() -> None:
    """The server knows that it began."""
    assert beaten(()) == []
    assert beaten((), (), ()) == [(), ()]


def test_what_was_told_is_told_again() -> None:
    """A heartbeat that carries nothing does not take back what the one before it carried."""
    assert beaten((), ("some",), (), ("more",), ()) == [("some",), ("some",), ("more",), ("more",)]


def test_details_are_never_held_back() -> None:
    """Also where the first heartbeat has some."""
    assert beaten(("some",)) == [("some",)]


async def stored(answer: str, server: Server, check: Callable[[], None]) -> Any:
    """What an activity's answer is once it may go to the store."""
    environment, inner = ActivityEnvironment(), Inner(answer)
    environment.info = replace(
        environment.info, heartbeat_timeout=timedelta(seconds=5), started_time=datetime.now(UTC) + timedelta(hours=1)
    )
    environment.on_heartbeat = inner.heartbeat
    interceptor = HeartbeatInterceptor(NO_CLIENT, check).intercept_activity(inner)
    interceptor.init(server)

    async def run() -> Any:
        return await interceptor.execute_activity(ExecuteActivityInput(fn=run, args=(), executor=None, headers={}))

    return await environment.run(run)


@pytest.mark.parametrize(("size", "checks"), [(KEPT_FROM_BYTES, 3), (100, 0)])
async def test_a_large_result_waits_until_the_store_answers(
    size: int, checks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", 0.01)
    server, asked = Server(), list[bool]()

    def check() -> None:
        server.beat.clear()
        asked.append(server.beat.wait(60))
        if len(asked) < 3:
            raise BlobsUnreachable("it is down")

    assert await stored("x" * size, server, check) == "x" * size
    assert asked == [True] * checks


async def test_a_large_result_tells_at_once_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", 3600)
    server, asked = Server(), list[bool]()
    await stored("x" * KEPT_FROM_BYTES, server, lambda: asked.append(server.beat.wait(60)))
    assert asked == [True]
