"""The server: one for all protocols, and as many scripts at once as there are names.

The first segment of an address is the name of a script, what follows it says which protocol is spoken. Whatever a
provider would refuse is answered with an error, and remembered.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any, Self

from tests.support.dialects import anthropic, chat, google, responses, template
from tests.support.dialects.answers import Answer, Failure, Json, Raw

ADAPTERS = {
    "chat": "openai-chat:gpt-4o",
    "template": "openai-chat:qwen3-32b",
    "responses": "openai-responses:gpt-5",
    "anthropic": "anthropic:claude-sonnet-5-5",
    "google": "google:gemini-2.5-pro",
}
"""A model of each, by the name of its protocol."""
_DIALECTS: dict[str, ModuleType] = {
    "/template/v1/chat/completions": template,
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": anthropic,
    ":generateContent": google,
    ":streamGenerateContent": google,
}
_VERSION = {"chat": "/v1", "template": "/template/v1", "responses": "/v1"}
"""What the address of an alias ends with, where the client's library does not add it."""


@dataclass
class Script:
    """The answers that are left, and what came."""

    answers: list[Answer | Failure | Raw]
    requests: list[Json] = field(default_factory=list[Json])
    complaints: list[str] = field(default_factory=list[str])
    """What a provider would have refused."""
    streamed: list[bool] = field(default_factory=list[bool])
    given: dict[str, Answer | Failure | Raw] = field(default_factory=dict[str, "Answer | Failure | Raw"])
    """By request: one that comes again, because a busy machine lost the answer, gets the same."""

    def answer(self, body: Json, *, streamed: bool) -> Answer | Failure | Raw:
        """What a request gets."""
        key = json.dumps([streamed, body], sort_keys=True)
        if key not in self.given:
            self.requests.append(body)
            left = self.answers.pop(0) if self.answers else Failure(400, "The script has no more answers.")
            if not isinstance(left, Failure) and left.once:
                return left
            self.given[key] = left
        return self.given[key]


class Providers(ThreadingHTTPServer):
    """All of them, at one address, as long as the context lasts."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts: dict[str, Script] = defaultdict(lambda: Script([]))
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="providers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def alias(self, adapter: str, name: str, *answers: Answer | Failure | Raw, **more: Any) -> Json:
        """An alias of a workshop for a model that gives these answers, in order."""
        self.scripts[name] = Script(list(answers))
        address = f"http://127.0.0.1:{self.server_port}/{name}{_VERSION.get(adapter, '')}"
        return {"model": ADAPTERS[adapter], "base_url": address, **more}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # a connection for each request, so that closing waits for nobody
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing is printed."""

    def do_POST(self) -> None:
        body: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        dialect = next(one for end, one in _DIALECTS.items() if path.endswith(end))
        assert isinstance(self.server, Providers)
        script = self.server.scripts[path.split("/")[1]]
        streamed = bool(body.get("stream")) or path.endswith(":streamGenerateContent")
        script.streamed.append(streamed)
        if (complaint := dialect.check(body, dict(self.headers))) is not None:
            script.complaints.append(complaint)
            return self._fail(dialect, Failure(400, complaint))
        answer = script.answer(body, streamed=streamed)
        if isinstance(answer, Failure):
            return self._fail(dialect, answer)
        if isinstance(answer, Raw):
            return self._send(answer.status, answer.media_type, answer.data, answer.encoding, sized=answer.sized)
        number = script.requests.index(body) + 1
        body = {"model": path, **body}
        if streamed:
            return self._send(200, "text/event-stream", b"".join(_stream(dialect, answer, number, body)))
        return self._send(200, "application/json", json.dumps(dialect.whole(answer, number, body)).encode())

    def _fail(self, dialect: ModuleType, failure: Failure) -> None:
        said = json.dumps(dialect.failure(failure.status, failure.message)).encode()
        self._send(failure.status, "application/json", said)

    def _send(self, status: int, media_type: str, data: bytes, encoding: str = "", *, sized: bool = True) -> None:
        if not sized:
            # An end that neither a length nor the version foretells.
            self.protocol_version = "HTTP/1.1"
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.send_header(*(("Content-Length", str(len(data))) if sized else ("Connection", "close")))
        self.end_headers()
        self.wfile.write(data)


def events_of(adapter: str, answer: Answer) -> list[tuple[str | None, Json]]:
    """Return the events of an answer's stream in one protocol, each with its name, where it has one."""
    dialect = {"chat": chat, "template": template, "responses": responses, "anthropic": anthropic, "google": google}
    return list(dialect[adapter].events(answer, 1, {"model": "m"}))


def _stream(dialect: ModuleType, answer: Answer, number: int, body: Json) -> Iterator[bytes]:
    for name, data in dialect.events(answer, number, body):
        yield (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"
    if dialect in (chat, template):
        yield b"data: [DONE]\n\n"
