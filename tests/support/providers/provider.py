"""A local server that speaks OpenAI's chat-completions protocol and answers from a script.

For tests of the real provider path: point `OPENAI_BASE_URL` at `FakeProvider.url` and use `openai-chat:<any name>`.
Every request is kept, in memory and on request as a line of JSON in a file, before it is answered. Waiting answers
give up when the server closes, so closing never hangs. Also a program:

    python -m tests.support.providers.provider --port 0 --script pitch-decks --log requests.jsonl \\
        --fault 429:2 --fault drop
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.providers.answers import (
    MAX_WAIT_SECONDS,
    Answer,
    Call,
    Delayed,
    Drop,
    Failure,
    Garbage,
    Gate,
    Gated,
    Script,
    Served,
    Text,
    ToolCalls,
    Usage,
    rate_limited,
    tool_call,
    unauthorized,
)
from tests.support.providers.pitch_decks import pitch_decks
from tests.support.providers.wire import Exchange, Reply, check_conversation, compose

__all__ = [
    "Call",
    "Delayed",
    "Drop",
    "Failure",
    "FakeProvider",
    "Garbage",
    "Gate",
    "Gated",
    "Request",
    "Text",
    "ToolCalls",
    "Usage",
    "by_function",
    "fixed",
    "pitch_decks",
    "rate_limited",
    "tool_call",
    "unauthorized",
]

MODELS = ("scripted",)
HALF = 2


@dataclass(frozen=True)
class Request:
    """A request as it arrived. `arrived_at` is seconds since the epoch; headers have lower-case names, no key."""

    number: int
    arrived_at: float
    headers: dict[str, str]
    body: dict[str, Any]


class FakeProvider:
    """The server and its memory. Faults are used up in order, one a request, before the script is asked."""

    def __init__(
        self,
        script: Script,
        *,
        faults: Iterable[Answer] = (),
        log: Path | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self._script = script
        self._faults = deque(faults)
        self._log = log
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._keys: list[str] = []
        self._asked = itertools.count(1)
        self._gates: list[Gate] = []
        self._closing = threading.Event()
        self._server = _Server((host, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="scripted-provider")

    @property
    def url(self) -> str:
        """What `OPENAI_BASE_URL` has to be."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def requests(self) -> list[Request]:
        """The completions asked for so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def keys(self) -> list[str]:
        """The key each request came with."""
        with self._changed:
            return list(self._keys)

    def wait_for_requests(self, count: int, timeout: float = MAX_WAIT_SECONDS) -> list[Request]:
        """Return the requests once there are that many. It blocks: from async code use `asyncio.to_thread`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                raise TimeoutError(f"{len(self._requests)} of {count} requests came within {timeout} s")
            return list(self._requests)

    def wait_for_hang_up(self, timeout: float = MAX_WAIT_SECONDS) -> None:
        """Return once a client has closed the connection of a request that waits for its answer. It blocks."""
        deadline = time.monotonic() + timeout
        while not any(map(_has_hung_up, self._server.connections)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no client hung up within {timeout} s")
            time.sleep(0.01)

    def add_faults(self, *faults: Answer) -> None:
        """Let the next requests fail like this."""
        with self._changed:
            self._faults.extend(faults)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Break off what is waiting, close every connection and wait for all threads."""
        with self._changed:
            self._closing.set()
            for gate in self._gates:
                gate.open()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.close_connections()
        self._server.server_close()

    def record(self, headers: dict[str, str], body: dict[str, Any]) -> Request:
        """Keep a request, before anything is answered."""
        kept = {name.lower(): value for name, value in headers.items() if name.lower() != "authorization"}
        authorization = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        with self._changed:
            self._keys.append(authorization.removeprefix("Bearer "))
            request = Request(len(self._requests) + 1, time.time(), kept, body)
            self._requests.append(request)
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(request)) + "\n")
            self._changed.notify_all()
        return request

    def answer(self, request: Request) -> Served | None:
        """Decide what a request gets, and wait as long as the answer says; None: the server is closing."""
        if (problem := check_conversation(request.body)) is not None:
            return Failure(400, problem)
        with self._changed:
            answer = self._faults.popleft() if self._faults else None
        return self._settle(answer or self._ask(request), request)

    def stand_at(self, gate: Gate) -> bool:
        """Wait at a gate; False when the server closed meanwhile."""
        with self._changed:
            if not self._closing.is_set():
                self._gates.append(gate)
        if not self._closing.is_set():
            gate.stand()
        return not self._closing.is_set()

    def _settle(self, answer: Answer, request: Request) -> Served | None:
        if isinstance(answer, Delayed):
            cancelled = self._closing.wait(answer.seconds)
        elif isinstance(answer, Gated):
            cancelled = not self.stand_at(answer.gate)
        else:
            return answer
        return None if cancelled else self._settle(answer.then or self._ask(request), request)

    def _ask(self, request: Request) -> Answer:
        with self._changed:
            number = next(self._asked)
        try:
            return self._script(request.body, number)
        except Exception as error:  # the test's own code: the run under test has to see that it failed
            return Failure(400, f"The script failed with {error!r}.")


def _has_hung_up(connection: socket.socket) -> bool:
    """Whether the client at the other end of a connection has closed it."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except ConnectionError:
        return True
    except OSError:  # there is nothing to read, or our side has closed it
        return False


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them, and no socket outlives its test
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], provider: FakeProvider) -> None:
        super().__init__(address, _Handler)
        self.provider = provider
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    @property
    def connections(self) -> list[socket.socket]:
        """Those that are open."""
        with self._guard:
            return list(self._open)

    def opened(self, connection: socket.socket) -> None:
        with self._guard:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._guard:
            self._open.discard(connection)

    def close_connections(self) -> None:
        """End the threads that wait for another request on a connection that the client keeps open."""
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of many tests; anything else is printed as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise every answer costs the client 40 ms

    @property
    def _home(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def setup(self) -> None:
        super().setup()
        self._home.opened(self.connection)

    def finish(self) -> None:
        self._home.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name is the base class's)
        """Requests are recorded, not printed."""

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self._send_whole(404, {"error": {"message": f"Invalid URL (GET {self.path})", "code": None}})
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in MODELS]
        return self._send_whole(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            return self._send_whole(404, {"error": {"message": f"Invalid URL (POST {self.path})", "code": None}})
        try:
            body: dict[str, Any] = json.loads(raw)
        except ValueError:
            return self._send_whole(400, {"error": {"message": "The body is not valid JSON.", "code": None}})
        request = self._home.provider.record(dict(self.headers.items()), body)
        answer = self._home.provider.answer(request)
        return self._hang_up() if answer is None else self._send(compose(answer, Exchange(request.number, body)))

    def _send_whole(self, status: int, body: dict[str, Any]) -> None:
        self._send(Reply(status, "application/json", (json.dumps(body).encode(),)))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        if reply.retry_after_seconds is not None:
            self.send_header("Retry-After", f"{reply.retry_after_seconds:g}")
        if reply.media_type == "text/event-stream":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._send_pieces(reply)
        else:
            (body,) = reply.pieces
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // HALF] if reply.cut else body)
        if reply.cut:
            self._hang_up()

    def _send_pieces(self, reply: Reply) -> None:
        half = len(reply.pieces) // HALF
        for index, piece in enumerate(reply.pieces):
            if index == half and not self._goes_on(reply):
                return
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _goes_on(self, reply: Reply) -> bool:
        if reply.pause is not None and not self._home.provider.stand_at(reply.pause):
            self._hang_up()
            return False
        return not reply.cut

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def fixed(*answers: Answer) -> Script:
    """Answer with these, in order. A request too many is refused with a message that says so."""

    def script(_request: dict[str, Any], number: int) -> Answer:
        if number > len(answers):
            return Failure(400, f"The script has {len(answers)} answers, this is request {number}.")
        return answers[number - 1]

    return script


def by_function(answer: Callable[[dict[str, Any]], Answer]) -> Script:
    """Answer by looking at the request alone, which is right where several conversations run at once."""
    return lambda request, _number: answer(request)


def _parse_fault(text: str) -> Answer:
    name, _, value = text.partition(":")
    if name == "delay":
        return Delayed(float(value))
    if name == "429":
        return rate_limited(float(value or 1))
    if name in {"drop", "garbage"}:
        return Drop() if name == "drop" else Garbage()
    return unauthorized() if name == "401" else Failure(int(name))


def _load_script(name: str) -> Script:
    if name == "pitch-decks":
        return pitch_decks()
    module, _, attribute = name.partition(":")
    script: Script = getattr(importlib.import_module(module), attribute)
    return script


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. The first line printed is the base URL."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.providers.provider", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 in a container")
    parser.add_argument("--script", default="pitch-decks", help="pitch-decks, or module:script")
    parser.add_argument("--log", type=Path, help="append every request to this file, one JSON object a line")
    parser.add_argument("--fault", action="append", default=[], help="429[:SECONDS], 500, 401, drop, garbage, delay:S")
    options = parser.parse_args(arguments)
    stop = threading.Event()

    def handle(_number: int, _frame: object) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    faults = [_parse_fault(text) for text in options.fault]
    script, where = _load_script(options.script), {"port": options.port, "host": options.host}
    with FakeProvider(script, faults=faults, log=options.log, **where) as provider:
        print(provider.url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
