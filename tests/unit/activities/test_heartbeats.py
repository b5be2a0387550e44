"""What of an activity's heartbeats reaches the server."""

from __future__ import annotations

from typing import Any, cast

from temporalio.client import Client
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput

from llm_do_temporal.activities.heartbeats import HeartbeatInterceptor


class Inner(ActivityInboundInterceptor):
    """Keeps what an activity would beat with."""

    def __init__(self) -> None:
        self.outbound: ActivityOutboundInterceptor | None = None

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """See ActivityInboundInterceptor."""
        self.outbound = outbound

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        """Not called here."""
        raise NotImplementedError


class Server(ActivityOutboundInterceptor):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, ...]] = []

    def heartbeat(self, *details: Any) -> None:
        """See ActivityOutboundInterceptor."""
        self.got.append(details)


def beaten(*beats: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What the server gets of these heartbeats of one activity."""
    inner, server = Inner(), Server()
    HeartbeatInterceptor(cast("Client", None)).intercept_activity(inner).init(server)
    assert inner.outbound is not None
    for details in beats:
        inner.outbound.heartbeat(*details)
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
