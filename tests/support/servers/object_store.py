"""An S3-compatible store on this machine, which can be down."""

from __future__ import annotations

import io
import threading
import urllib.request
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingTypeStubs]
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tests.support.patience import PATIENCE_SECONDS

BUCKET = "blobs"


class ObjectStore:
    """The store; `variables` is what an environment must have to use it."""

    def __init__(self) -> None:
        self._served: Callable[..., Iterable[bytes]] = DomainDispatcherApplication(create_backend_app)  # pyright: ignore[reportUnknownVariableType]
        self._down: dict[str, str] = {}
        self._part: bytes | None = None
        self._unreadable: set[str] = set()
        self._refuses = False
        self._refused = threading.Semaphore(0)
        self._server: BaseWSGIServer = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Silent)
        self.endpoint = f"http://127.0.0.1:{self._server.port}"
        self.url = f"s3://{BUCKET}/some/prefix"
        self.variables = {
            "LLM_DO_BLOBS_URL": self.url,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    @contextmanager
    def down(self, *methods: str, answer: str = "503 Service Unavailable") -> Generator[None]:
        """While the block runs, requests with these methods, else all, are answered with this alone."""
        self._down = dict.fromkeys(methods or ("GET", "HEAD", "PUT", "POST", "DELETE"), answer)
        try:
            yield
        finally:
            self._down = {}

    @contextmanager
    def unreadable(self, part: bytes) -> Generator[None]:
        """While the block runs, what has this in it and is put meanwhile cannot be read: it is answered with 503."""
        self._part = part
        try:
            yield
        finally:
            self._part = None
            self._unreadable.clear()

    def refuse(self) -> None:
        """From here on every request is answered with 403 and with all that it carried."""
        self._refuses = True

    def await_refused(self, times: int = 1) -> None:
        """Wait until so many requests have been refused that nobody has waited for before."""
        for _ in range(times):
            assert self._refused.acquire(timeout=PATIENCE_SECONDS), "nobody asks the store"

    def start(self) -> None:
        """Serve, with an empty bucket."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        for path in ("/moto-api/reset", f"/{BUCKET}"):
            method = "POST" if "reset" in path else "PUT"
            with urllib.request.urlopen(urllib.request.Request(self.endpoint + path, method=method)) as answer:
                assert answer.status == 200

    def stop(self) -> None:
        """Stop listening: connections are refused from here on."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if self._part is not None and self._part in body:
            self._unreadable.add(path)
        instead = "503 Service Unavailable" if method == "GET" and path in self._unreadable else self._down.get(method)
        if instead is not None:
            start_response(instead, [])
            self._refused.release()
            return [b""]
        if self._refuses:
            start_response("403 Forbidden", [])
            return [str(environ).encode()]
        return self._served(environ, start_response)


class _Silent(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


@contextmanager
def object_store() -> Generator[ObjectStore]:
    """A store with an empty bucket."""
    store = ObjectStore()
    store.start()
    try:
        yield store
    finally:
        store.stop()
