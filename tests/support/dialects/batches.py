"""The batch APIs of OpenAI, Anthropic and Google, at one address: accounts with files, and batches that run when told.

The first segment of an address is the name of an account. What is in its `requests` has been paid for.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.dialects import anthropic, google, responses
from tests.support.dialects.answers import Answer, Failure, Json, says
from tests.support.dialects.server import ADAPTERS

SPEAKERS = ("responses", "anthropic", "google")
"""Protocols that have batches, as `ADAPTERS` names them."""
EXPIRED = "expired"
Given = Answer | Failure | str
"""What comes of a request; a text is `EXPIRED`."""
_VERSION = {"responses": "/v1"}


@dataclass
class Job:
    id: str
    kind: str
    requests: dict[str, Json]
    state: str = "running"
    """`running`, `ended`, `failed` or `cancelled`."""
    given: dict[str, Given] = field(default_factory=dict[str, Given])
    input_file: str = ""
    created: float = field(default_factory=time.time)


@dataclass
class Account:
    """Batches of one account, how they end, and what was asked."""

    answer: Callable[[Json], Given] = lambda _body: says("done")
    runs: bool = True
    """Whether batches end as soon as they are looked at."""
    refuses: Callable[[Json], bool] = lambda _body: False
    """Whether a request makes the provider refuse the whole batch that it is in."""
    answers_creation: bool = True
    """Whether whoever creates a batch hears of it."""
    lists: bool = True
    """Whether the provider tells which batches there are."""
    creation: threading.Event | None = None
    """Moment until which whoever creates a batch waits for the answer; None: the answer comes at once."""
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    looks: int = 0
    read: int = 0
    """Number of times that answers were read."""

    @property
    def requests(self) -> list[Json]:
        """All requests that the model has run."""
        ran = [job for job in self.jobs.values() if job.state == "ended"]
        return [job.requests[one] for job in ran for one, given in job.given.items() if given != EXPIRED]

    @property
    def sent(self) -> list[Json]:
        """All requests of all batches."""
        return [body for job in self.jobs.values() for body in job.requests.values()]

    def look(self, job: Job) -> Job:
        """Return a batch, run first where that is due."""
        self.looks += 1
        if self.runs and job.state == "running":
            if job.kind == "responses" and any(self.refuses(body) for body in job.requests.values()):
                job.state = "failed"
            else:
                job.given = {key: self.answer(body) for key, body in job.requests.items()}
                job.state = "ended"
        return job


class BatchProviders(ThreadingHTTPServer):
    """All three, as long as the context lasts."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.accounts: dict[str, Account] = defaultdict(Account)
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="batches")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def alias(self, adapter: str, name: str, **more: Any) -> Json:
        """An alias of a workshop for the model of an account."""
        address = f"http://127.0.0.1:{self.server_port}/{name}{_VERSION.get(adapter, '')}"
        return {"model": ADAPTERS[adapter], "base_url": address, **more}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing is printed."""

    def do_GET(self) -> None:
        assert isinstance(self.server, BatchProviders)
        with self.server.lock:
            account, served = self._served(self.server)
        if self.command == "POST" and account.creation is not None and account.jobs:
            account.creation.wait(60)
        if served is None:
            self.close_connection = True
            return
        status, said = served
        with suppress(ConnectionError):  # whoever asked may have been killed
            self._send(status, said)

    def do_POST(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def _served(self, server: BatchProviders) -> tuple[Account, tuple[int, Json | bytes] | None]:
        size = int(self.headers.get("Content-Length") or 0)
        given = self.rfile.read(size)
        path = self.path.partition("?")[0]
        _, name, rest = path.split("/", 2)
        account = server.accounts[name]
        for method, pattern, serve in _ROUTES:
            found = re.fullmatch(pattern, rest)
            if method == self.command and found and (account.lists or not rest.endswith("/batches")):
                served = serve(self, account, given, *found.groups())
                return account, None if served is None else (200, served)
        return account, (404, {"error": {"message": f"no {self.command} {rest}", "type": "not_found_error"}})

    def _send(self, status: int, served: Json | bytes) -> None:
        data = served if isinstance(served, bytes) else json.dumps(served).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for key, value in self.more.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    @property
    def more(self) -> dict[str, str]:
        if self.path.endswith("/upload/v1beta/files"):
            return {"x-goog-upload-url": f"http://{self.headers['Host']}{self.path}/bytes"}
        return {"x-goog-upload-status": "final"} if self.path.endswith("/bytes") else {}


def _create(account: Account, kind: str, requests: dict[str, Json], **more: Any) -> Job:
    number = len(account.jobs) + 1
    job = Job(f"batches/{number}" if kind == "google" else f"batch_{number}", kind, requests, **more)
    account.jobs[job.id] = job
    return job


def _cancel(job: Job) -> None:
    if job.state == "running":
        job.state = "cancelled"


# OpenAI


def _openai_upload(_on: _Handler, account: Account, given: bytes) -> Json:
    lines = [line for line in given.split(b"\r\n") if line.startswith(b'{"custom_id"')]
    file = f"file-{len(account.files) + 1}"
    account.files[file] = b"\n".join(lines)
    return {"id": file, "object": "file", "bytes": len(given), "created_at": 1, "filename": "b", "purpose": "batch"}


def _openai_create(_on: _Handler, account: Account, given: bytes) -> Json | None:
    file = json.loads(given)["input_file_id"]
    lines = [json.loads(line) for line in account.files[file].splitlines() if line.strip()]
    job = _create(account, "responses", {line["custom_id"]: line["body"] for line in lines}, input_file=file)
    return _openai(job) if account.answers_creation else None


def _openai(job: Job) -> Json:
    names = {"running": "in_progress", "ended": "completed"}
    status = names.get(job.state, job.state)
    if job.state == "ended" and EXPIRED in job.given.values():
        status = "expired"
    counts = {"total": len(job.requests), "completed": 0, "failed": 0}
    wrong = {"object": "list", "data": [{"code": "bad", "line": 1, "message": "a wrong line", "param": None}]}
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": "/v1/responses",
        "completion_window": "24h",
        "created_at": int(job.created),
        "input_file_id": job.input_file,
        "status": status,
        "request_counts": counts,
        "output_file_id": f"out-{job.id}" if job.state == "ended" else None,
        "errors": wrong if job.state == "failed" else None,
    }


def _openai_look(_on: _Handler, account: Account, _given: bytes, job: str) -> Json:
    return _openai(account.look(account.jobs[job]))


def _openai_list(_on: _Handler, account: Account, _given: bytes) -> Json:
    return {"object": "list", "data": [_openai(job) for job in _newest(account)], "has_more": False}


def _openai_cancel(_on: _Handler, account: Account, _given: bytes, job: str) -> Json:
    _cancel(account.jobs[job])
    return _openai(account.jobs[job])


def _openai_file(_on: _Handler, account: Account, _given: bytes, file: str) -> bytes:
    if file in account.files:
        return account.files[file]
    account.read += 1
    job = account.jobs[file.removeprefix("out-")]
    lines: list[Json] = []
    for place, (key, given) in enumerate(job.given.items()):
        if isinstance(given, Answer):
            response = {"status_code": 200, "body": responses.whole(given, place + 1, job.requests[key])}
            lines.append({"custom_id": key, "response": response})
        elif isinstance(given, Failure):
            body = responses.failure(given.status, given.message)
            lines.append({"custom_id": key, "response": {"status_code": given.status, "body": body}})
    return _lines(lines)


# Anthropic


def _anthropic_create(_on: _Handler, account: Account, given: bytes) -> Json | None:
    requests = {one["custom_id"]: one["params"] for one in json.loads(given)["requests"]}
    job = _create(account, "anthropic", requests)
    return _anthropic(_on, job) if account.answers_creation else None


def _anthropic(on: _Handler, job: Job) -> Json:
    name = on.path.split("/")[1]
    ended = job.state in {"ended", "cancelled"}
    results = f"http://{on.headers['Host']}/{name}/v1/messages/batches/{job.id}/results"
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts["succeeded" if ended else "processing"] = len(job.requests)
    return {
        "id": job.id,
        "type": "message_batch",
        "processing_status": "ended" if ended else "in_progress",
        "created_at": _iso(job.created),
        "expires_at": _iso(job.created + 86_400),
        "ended_at": _iso(job.created) if ended else None,
        "archived_at": None,
        "cancel_initiated_at": None,
        "request_counts": counts,
        "results_url": results if ended else None,
    }


def _anthropic_look(on: _Handler, account: Account, _given: bytes, job: str) -> Json:
    return _anthropic(on, account.look(account.jobs[job]))


def _anthropic_list(on: _Handler, account: Account, _given: bytes) -> Json:
    data = [_anthropic(on, job) for job in _newest(account)]
    return {"data": data, "has_more": False, "first_id": None, "last_id": None}


def _anthropic_cancel(on: _Handler, account: Account, _given: bytes, job: str) -> Json:
    _cancel(account.jobs[job])
    return _anthropic(on, account.jobs[job])


def _anthropic_results(_on: _Handler, account: Account, _given: bytes, name: str) -> bytes:
    account.read += 1
    job = account.jobs[name]
    lines: list[Json] = []
    for place, (key, given) in enumerate(job.given.items()):
        result: Json = {"type": "expired"}
        if isinstance(given, Answer):
            result = {"type": "succeeded", "message": anthropic.whole(given, place + 1, job.requests[key])}
        elif isinstance(given, Failure):
            result = {"type": "errored", "error": anthropic.failure(given.status, given.message)}
        lines.append({"custom_id": key, "result": result})
    return _lines(lines)


# Google


def _google_upload(_on: _Handler, account: Account, given: bytes) -> Json:
    file = f"files/{len(account.files) + 1}"
    account.files[file] = given
    return {"file": {"name": file, "mimeType": "application/jsonl", "sizeBytes": str(len(given)), "state": "ACTIVE"}}


def _google_create(_on: _Handler, account: Account, given: bytes, _model: str) -> Json | None:
    file = json.loads(given)["batch"]["inputConfig"]["fileName"]
    lines = [json.loads(line) for line in account.files[file].splitlines()]
    job = _create(account, "google", {line["key"]: line["request"] for line in lines}, input_file=file)
    return _google(job) if account.answers_creation else None


def _google(job: Job) -> Json:
    names = {"running": "RUNNING", "ended": "SUCCEEDED", "cancelled": "CANCELLED", "failed": "FAILED"}
    state = names[job.state]
    if job.state == "ended" and EXPIRED in job.given.values():
        state = "EXPIRED"
    about: Json = {
        "displayName": "pydantic-ai-batch",
        "state": f"BATCH_STATE_{state}",
        "createTime": _iso(job.created),
    }
    if job.state == "ended":
        about["output"] = {"responsesFile": f"files/out-{job.id.partition('/')[2]}"}
    return {"name": job.id, "metadata": about}


def _google_look(_on: _Handler, account: Account, _given: bytes, number: str) -> Json:
    return _google(account.look(account.jobs[f"batches/{number}"]))


def _google_list(_on: _Handler, account: Account, _given: bytes) -> Json:
    return {"operations": [_google(job) for job in _newest(account)]}


def _google_cancel(_on: _Handler, account: Account, _given: bytes, number: str) -> Json:
    _cancel(account.jobs[f"batches/{number}"])
    return {}


def _google_results(_on: _Handler, account: Account, _given: bytes, number: str) -> bytes:
    account.read += 1
    job = account.jobs[f"batches/{number}"]
    lines: list[Json] = []
    for place, (key, given) in enumerate(job.given.items()):
        if isinstance(given, Answer):
            lines.append({"key": key, "response": google.whole(given, place + 1, job.requests[key])})
        elif isinstance(given, Failure):
            lines.append({"key": key, "error": {"code": 3, "message": given.message}})
    return _lines(lines)


def _done(_on: _Handler, _account: Account, _given: bytes, *_file: str) -> Json:
    return {}


def _newest(account: Account) -> list[Job]:
    return list(reversed(account.jobs.values()))


def _lines(lines: list[Json]) -> bytes:
    return b"\n".join(json.dumps(line, ensure_ascii=False).encode() for line in lines)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).isoformat().replace("+00:00", "Z")


_Route = tuple[str, str, Callable[..., "Json | bytes | None"]]
_ROUTES: tuple[_Route, ...] = (
    ("POST", r"v1/files", _openai_upload),
    ("GET", r"v1/files/([^/]+)/content", _openai_file),
    ("DELETE", r"v1/files/([^/]+)", _done),
    ("POST", r"v1/batches", _openai_create),
    ("GET", r"v1/batches", _openai_list),
    ("GET", r"v1/batches/([^/]+)", _openai_look),
    ("POST", r"v1/batches/([^/]+)/cancel", _openai_cancel),
    ("POST", r"v1/messages/batches", _anthropic_create),
    ("GET", r"v1/messages/batches", _anthropic_list),
    ("GET", r"v1/messages/batches/([^/]+)", _anthropic_look),
    ("GET", r"v1/messages/batches/([^/]+)/results", _anthropic_results),
    ("POST", r"v1/messages/batches/([^/]+)/cancel", _anthropic_cancel),
    ("POST", r"upload/v1beta/files", _done),
    ("POST", r"upload/v1beta/files/bytes", _google_upload),
    ("DELETE", r"v1beta/files/([^/]+)", _done),
    ("POST", r"v1beta/models/([^/:]+):batchGenerateContent", _google_create),
    ("GET", r"v1beta/batches", _google_list),
    ("GET", r"v1beta/batches/(\d+)", _google_look),
    ("POST", r"v1beta/batches/(\d+):cancel", _google_cancel),
    ("GET", r"v1beta/files/out-(\d+):download", _google_results),
)
