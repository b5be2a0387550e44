"""What of an activity's heartbeats reaches the server, also while a large result waits for the blob store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput

from llm_do_temporal.activities.runtime import interceptors
from llm_do_temporal.activities.runtime.interceptors import HeartbeatInterceptor, Promptness, check_extensions
from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.extension import installed
from llm_do_temporal.messages.conversation import BatchedTurn
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.storage.external_storage import keeping_big_payloads


@pytest.mark.parametrize("name", ["words", "fork", "", "forks "])
def test_an_activity_with_a_header_for_a_missing_extension_is_left_to_another_service(name: str) -> None:
    with pytest.raises(ApplicationError, match="is not installed in this worker service") as raised:
        check_extensions({"traceparent": Payload(), f"llm-do-extension-{name}": Payload()})
    assert (raised.value.type, raised.value.non_retryable) == ("MissingExtension", False)


def test_other_headers_and_those_for_installed_extensions_are_let_through() -> None:
    headers = [f"llm-do-extension-{one.name}" for one in installed()]
    check_extensions(dict.fromkeys([*headers, "traceparent", "llm-do"], Payload()))


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

    def __init__(self, *told_before: Any) -> None:
        self.got: list[tuple[Any, ...]] = []
        self.beat = threading.Event()
        self._told_before = told_before

    def info(self) -> Any:
        """See ActivityOutboundInterceptor."""
        return SimpleNamespace(heartbeat_details=self._told_before)

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


@pytest.mark.parametrize(
    ("told_before", "kept"),
    [
        (BatchedTurn(custom_id="r").model_dump(mode="json"), [(BatchedTurn(custom_id="r"),)]),
        # the end of an answer that an earlier attempt wrote is no part of this one
        ({"text": "Onc", "chars": 3}, [()]),
    ],
)
def test_a_turn_that_waits_for_a_batch_is_not_forgotten(told_before: Any, kept: list[Any]) -> None:
    inner, server = Inner(), Server(told_before)
    HeartbeatInterceptor(NO_CLIENT).intercept_activity(inner).init(server)
    inner.heartbeat()
    inner.heartbeat()
    assert server.got == kept


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


class Store(LocalBlobStore):
    """Counts what is put, and keeps it once that is possible."""

    def __init__(self, folder: Path, server: Server, mend: Callable[[int], None]) -> None:
        super().__init__(folder)
        self.server, self.mend, self.beaten = server, mend, list[bool]()

    def put_bytes(self, data: bytes) -> str:
        """See BlobStore."""
        self.beaten.append(self.server.beat.wait(60))
        self.server.beat.clear()
        self.mend(len(self.beaten))
        return super().put_bytes(data)


class Wanted:
    """The server's answer to an attempt that asks whether it is still wanted."""

    def __init__(self, task_token: bytes) -> None:
        """Every attempt is."""

    async def heartbeat(self, rpc_timeout: timedelta) -> None:
        """See AsyncActivityHandle."""


async def stored(answer: str, blobs: Store) -> None:
    """An activity answers, and the SDK encodes what it answered."""
    environment, inner = ActivityEnvironment(), Inner(answer)
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=5), started_time=datetime.now(UTC))
    environment.on_heartbeat = inner.heartbeat
    converter = keeping_big_payloads(encrypting(pydantic_data_converter, KeyRing.of(Key("k", b"k" * 32))), blobs)
    client = cast("Client", SimpleNamespace(data_converter=converter, get_async_activity_handle=Wanted))
    interceptor = HeartbeatInterceptor(client).intercept_activity(inner)
    interceptor.init(blobs.server)

    async def run() -> Any:
        return await interceptor.execute_activity(ExecuteActivityInput(fn=run, args=(), executor=None, headers={}))

    assert await converter.decode(await converter.encode([await environment.run(run)])) == [answer]


@pytest.mark.parametrize(("size", "tries"), [(KEPT_FROM_BYTES, 3), (KEPT_FROM_BYTES - 40, 0), (100, 0)])
async def test_a_large_result_waits_until_it_is_kept_and_is_put_once(
    size: int, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only encryption makes large stays in the history."""
    monkeypatch.setattr(interceptors, "BEAT_SECONDS", 0.01)
    (in_the_way := tmp_path / "sha256").write_text("in the way")
    store = Store(tmp_path, Server(), lambda tries: in_the_way.unlink() if tries == 3 else None)
    await stored("x" * size, store)
    assert store.beaten == [True] * tries


async def test_a_large_result_tells_at_once_that_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptors, "BEAT_SECONDS", 3600)
    await stored("x" * KEPT_FROM_BYTES, store := Store(tmp_path, Server(), lambda _: None))
    assert store.beaten == [True]


@pytest.mark.parametrize("behind", [0, 3, 5, 3600, -3600, -0.5])
def test_a_clock_that_differs_does_not_hide_that_an_activity_comes_late(
    behind: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is behind by just as much as the activity is late."""
    real, machine = datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=behind)
    now = real

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return now - machine

    monkeypatch.setattr(interceptors, "datetime", Clock)
    promptness = Promptness()
    assert promptness.is_late(real), "the first: there is none to compare it with"
    now = real + timedelta(milliseconds=20)
    assert promptness.is_late(real) == (behind < -1), "a clock that is ahead only makes it ask more often"
    for late in (1.5, 3, 5, 3600):
        now = real + timedelta(seconds=late)
        assert promptness.is_late(real)


def test_a_clock_that_is_put_back_is_noticed_with_the_next_activity_that_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = datetime(2026, 1, 1, tzinfo=UTC)
    shown = real

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return shown

    monkeypatch.setattr(interceptors, "datetime", Clock)
    promptness = Promptness()
    promptness.is_late(real)
    shown = real - timedelta(seconds=5)
    assert not promptness.is_late(real)
    shown = real
    assert promptness.is_late(real)
