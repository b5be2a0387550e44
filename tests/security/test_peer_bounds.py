"""What is at the other end of a connection or a pipe may drip, flood or say anything: it ends at its limit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities import notifications
from llm_do_temporal.activities.notifications import notify
from llm_do_temporal.messages.activities import Notification, NotifyInput
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget
from tests.support.patience import PATIENCE_SECONDS
from tests.support.providers.dripping_server import Dripping, Pieces
from tests.support.servers.receiver import Receiver

OK = b"HTTP/1.1 200 OK\r\n"


def bytes_of(data: bytes) -> Iterable[bytes]:
    return (data[place : place + 1] for place in range(len(data)))


def forever(*pieces: bytes, first: bytes = b"") -> Pieces:
    return lambda: itertools.chain([first] if first else [], itertools.cycle(pieces))


def asked(url: str, **more: object) -> NotifyInput:
    told = Notification(
        id="x-1", event=NotifyEvent.APPROVAL_REQUESTED, at=datetime(2026, 3, 1, tzinfo=UTC), run="r", worker="w"
    )
    return NotifyInput(
        target=NotifyTarget.model_validate({"url": url, "secret_env": "HOOK_SECRET", **more}), notification=told
    )


SILENT: dict[str, tuple[Pieces, float]] = {
    "nothing": (lambda: (), 0.05),
    "a status, byte by byte": (lambda: bytes_of(OK * 1000), 0.05),
    "headers, byte by byte": (lambda: itertools.chain([OK], bytes_of(b"X-Drip: " + b"a" * 10_000)), 0.05),
    "headers, one by one": (forever(b"X-Drip: a\r\n", first=OK), 0.05),
    "a header that is continued": (forever(b" more\r\n", first=OK + b"X-Drip: a\r\n"), 0.05),
    "continue, again and again": (forever(b"HTTP/1.1 100 Continue\r\n\r\n"), 0.05),
    "early hints, again and again": (forever(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"), 0.05),
    "early hints, as fast as can be": (forever(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000), 0),
    "empty lines": (forever(b"\r\n"), 0.05),
    "half a status": (lambda: [b"HTTP/1.1 2"], 0.05),
    "no end of headers": (lambda: [OK + b"Content-Length: 0\r\n"], 0.05),
    "another protocol": (forever(b"+PONG\n"), 0.05),
}
"""What never says whether it was told."""
FLOODS: dict[str, Pieces] = {
    "headers without end": forever(b"X-Flood: " + b"a" * 8000 + b"\r\n", first=OK),
    "one header without end": forever(b"a" * 65536, first=OK + b"X-Flood: "),
    "a status without end": forever(b"A" * 65536, first=b"HTTP/1.1 200 "),
    "bytes": forever(bytes(65536)),
    "a header without a name": lambda: [OK + b": x\r\n\r\n"],
    "a length that is none": lambda: [OK + b"Content-Length: -5\r\n\r\n"],
    "two lengths": lambda: [OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n"],
    "a status that is none": lambda: [b"HTTP/1.1 99999 OK\r\n\r\n"],
    "hangs up": lambda: iter([b""]),
}
ENDLESS: dict[str, Pieces] = {
    "a body that drips": forever(b"a", first=OK + b"Content-Length: 1000000\r\n\r\n"),
    "a body without end": forever(b"a" * 65536, first=OK + b"\r\n"),
    "chunks without end": forever(b"1\r\na\r\n", first=OK + b"Transfer-Encoding: chunked\r\n\r\n"),
    "a chunk of any size": lambda: [OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"],
    "a body of any size": lambda: [OK + b"Content-Length: 99999999999999999999\r\n\r\n"],
    "a body that is packed": forever(bytes(65536), first=OK + b"Content-Encoding: gzip\r\n\r\n"),
}
"""What says that it was told, and goes on talking."""


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "ANSWER_SECONDS", 1)
    monkeypatch.setenv("HOOK_SECRET", "s")


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time for an answer that comes: a second is over before it is begun where the machine is busy."""
    monkeypatch.setattr(notifications, "ANSWER_SECONDS", PATIENCE_SECONDS)


@pytest.mark.sampled(2)
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("format_", ["json", "slack"])
@pytest.mark.parametrize(("pieces", "pause"), SILENT.values(), ids=SILENT)
def test_a_target_that_drips_is_left_at_the_limit(pieces: Pieces, pause: float, format_: str) -> None:
    with Dripping(pieces, pause=pause) as target, pytest.raises(ApplicationError) as failed:
        notify(asked(target.url, format=format_))
    assert not failed.value.non_retryable
    assert len(str(failed.value)) < 200


@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("pieces", FLOODS.values(), ids=FLOODS)
def test_a_target_that_floods_is_left(pieces: Pieces) -> None:
    with Dripping(pieces, pause=0) as target, pytest.raises(ApplicationError) as failed:
        notify(asked(target.url))
    assert not failed.value.non_retryable
    assert len(str(failed.value)) < 200


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
def test_the_text_of_an_answer_is_not_waited_for(pieces: Pieces) -> None:
    with Dripping(pieces, pause=0.05) as target:
        notify(asked(target.url))


@pytest.mark.thorough
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_a_target_that_takes_nothing_is_left() -> None:
    large = asked("http://127.0.0.1:1/")
    content = {"args": "x" * 8_000_000}
    with Dripping(lambda: (), reads=False) as target, pytest.raises(ApplicationError, match="did not answer"):
        notify(
            NotifyInput(
                target=NotifyTarget(url=target.url, secret_env="HOOK_SECRET"),
                notification=large.notification.model_copy(update={"content": content}),
            )
        )


@pytest.mark.control
@pytest.mark.usefixtures("unhurried")
def test_an_answer_in_time_is_an_answer() -> None:
    with Receiver() as receiver:
        notify(asked(receiver.url))
    assert [one.event for one in receiver.told] == ["approval.requested"]
