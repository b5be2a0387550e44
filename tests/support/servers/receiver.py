"""A local server that is told things by POST and keeps them, with the answers it is to give first."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

from tests.support.patience import PATIENCE_SECONDS


@dataclass(frozen=True)
class Told:
    """One request as it arrived; headers have lower-case names."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, read."""
        return cast("dict[str, Any]", json.loads(self.body))

    @property
    def event(self) -> str:
        return self.headers["x-llmdo-event"]


class Receiver:
    """The server. Answers 200 once the statuses it was given for an event are used up; `hold` lets one event wait."""

    def __init__(
        self,
        *,
        statuses: Mapping[str, Iterable[int]] | None = None,
        headers: dict[str, str] | None = None,
        hold: str = "",
    ) -> None:
        self._statuses = {event: deque(given) for event, given in (statuses or {}).items()}
        self._headers = headers or {}
        self._hold = hold
        self._changed = threading.Condition()
        self._told: list[Told] = []
        self.release = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="receiver")

    @property
    def url(self) -> str:
        """Where it is told things."""
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    @property
    def told(self) -> list[Told]:
        """Everything so far, in order of arrival."""
        with self._changed:
            return list(self._told)

    def wait_for(self, event: str) -> Told:
        """The first request about this event, as soon as it has arrived. Blocks."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((one for one in self._told if one.event == event), None), PATIENCE_SECONDS
            )
        assert found is not None, f"nothing was told of {event}"
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, told: Told) -> tuple[int, dict[str, str]]:
        """Keep a request; says how to answer it."""
        with self._changed:
            self._told.append(told)
            left = self._statuses.get(told.event)
            status = left.popleft() if left else 200
            self._changed.notify_all()
        if told.event == self._hold:
            self.release.wait(PATIENCE_SECONDS)
        return status, self._headers


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], receiver: Receiver) -> None:
        super().__init__(address, _Handler)
        self.receiver = receiver


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, more = cast("_Server", self.server).receiver.take(Told(self.path, headers, body))
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        return
