"""A provider that refuses every request and repeats the key it came with: in body, headers and reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

CARRIERS = ("authorization", "x-api-key", "x-goog-api-key")
Wording = Callable[[str], str]


def plainly(key: str) -> str:
    """What providers say."""
    return f"Incorrect API key provided: {key}. You can find your API key at the dashboard."


class Repeater:
    """The server. Answers with the statuses in order, then with the last one for ever."""

    def __init__(self, *statuses: int, wording: Wording = plainly) -> None:
        self._statuses = list(statuses)
        self._wording = wording
        self._guard = threading.Lock()
        self.keys: list[str] = []
        """What each request came with."""
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="repeater")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, key: str) -> tuple[int, str]:
        """Status and words for a request with this key."""
        with self._guard:
            self.keys.append(key)
            status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return status, self._wording(key)


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], repeater: Repeater) -> None:
        super().__init__(address, _Handler)
        self.repeater = repeater


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        sent = next((self.headers[name] for name in CARRIERS if self.headers.get(name)), "")
        key = sent.removeprefix("Bearer ")
        status, words = cast("_Server", self.server).repeater.take(key)
        body: dict[str, Any] = {
            "type": "error",
            "error": {"type": "authentication_error", "code": status, "status": "REFUSED", "message": words},
            "request": {"headers": {"authorization": f"Bearer {key}"}, "key": key},
        }
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Refused-Key", key)
        self.send_header("WWW-Authenticate", f'Bearer realm="{key}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        return
