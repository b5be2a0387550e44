"""Limits of connections: a peer that does not finish its request, or does not read its answer, is cut off.

Uvicorn limits the time between two requests only. This module adds limits for the first byte, the headers, the body
and the answer, and for the number of connections. It knows nothing of the requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEADER_SECONDS = 10.0
"""Longest time from the opening of a connection, or the first byte of a further request, to the end of the headers."""
BODY_SECONDS = 20.0
"""Time for a body to arrive; bytes that arrive buy more time."""
BODY_BYTES_PER_SECOND = 8 << 10
"""Slowest rate of a body once `BODY_SECONDS` are over: a slow mobile network is faster."""
LONGEST_BODY_SECONDS = 900.0
UNREAD_SECONDS = 60.0
"""Time that an answer waits for a reader that takes nothing."""
MAX_HEADER_BYTES = 32 << 10
MAX_CONNECTIONS = 400
"""Connections at once: a process may usually have 1,024 files open. A further one closes the longest waiting."""


class PatientConnection(H11Protocol):
    """An HTTP/1.1 connection with limits on how long its other end may take."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: asyncio.TimerHandle | None = None
        self._waiting_for = ""
        self._unread: asyncio.TimerHandle | None = None
        self._body_begun = 0.0
        self._body_bytes = 0
        self.opened = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for the headers; where there is no room, close the connection that has waited longest."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > MAX_CONNECTIONS:
            _longest_waiting(cast("Iterable[PatientConnection]", self.connections)).end()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._wait_for("", 0)
        self._read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived; they do not move the limit for the missing ones."""
        if self._waiting_for == "body":
            self._body_bytes += len(data)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, after an answer."""
        super().on_response_complete()
        self._look()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which no further request comes."""
        super().timeout_keep_alive_handler()
        self._look()

    def pause_writing(self) -> None:
        """Begin to wait for the other end to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.end)

    def resume_writing(self) -> None:
        """Stop waiting for the other end to read."""
        super().resume_writing()
        self._read()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered: the connection waits for one, or for the rest of one."""
        return self._is_answered or self._waiting_for == "body"

    @property
    def _is_answered(self) -> bool:
        """Whether every request that arrived has its answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def end(self) -> None:
        """Close the connection at once, with the rest of an answer unsent."""
        self.transport.abort()

    def _look(self) -> None:
        """Set the limit for whatever is waited for now."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._wait_for("reader", UNREAD_SECONDS)
        elif state is h11.SEND_BODY:
            if self._waiting_for != "body":
                self._body_begun, self._body_bytes = self.loop.time(), 0
                self._wait_for("body", BODY_SECONDS)
        elif (
            state is h11.IDLE
            and self._is_answered
            and (self.timeout_keep_alive_task is None or self.conn.trailing_data[0])
        ):
            # Between requests Uvicorn's own limit holds, until something arrives.
            self._wait_for("headers", HEADER_SECONDS)
        else:
            self._wait_for("", 0)

    def _wait_for(self, what: str, seconds: float) -> None:
        if what == self._waiting_for:
            return
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting_for = what
        self._waiting = self.loop.call_later(seconds, self._too_long) if what else None

    def _too_long(self) -> None:
        if self._waiting_for == "body":
            earned = min(BODY_SECONDS + self._body_bytes / BODY_BYTES_PER_SECOND, LONGEST_BODY_SECONDS)
            left = self._body_begun + earned - self.loop.time()
            if self.flow.read_paused:
                # The slow end is this one.
                left = max(left, BODY_SECONDS)
            if left > 0:
                self._waiting = self.loop.call_later(left, self._too_long)
                return
        self.end()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _longest_waiting(connections: Iterable[PatientConnection]) -> PatientConnection:
    """Return the oldest connection on which no request is being answered; without any, the newest connection."""
    known = list(connections)
    idle = [connection for connection in known if connection.is_idle]
    return min(idle, key=_opened) if idle else max(known, key=_opened)


def _opened(connection: PatientConnection) -> float:
    return connection.opened
