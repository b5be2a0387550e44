"""A collector of OpenTelemetry spans: takes OTLP over HTTP as protobuf and keeps what came."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.contrib.opentelemetry import create_tracer_provider

from tests.support.patience import PATIENCE_SECONDS


@dataclass(frozen=True)
class Collected:
    """A span as it arrived."""

    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    attributes: dict[str, Any]
    whole: str
    """All of it, to look for what must not be there."""


class Collector:
    """The server and its memory."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._spans: list[Collected] = []
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="collector")

    @property
    def url(self) -> str:
        """What `OTEL_EXPORTER_OTLP_ENDPOINT` has to be."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def spans(self) -> list[Collected]:
        """All that came, in order of arrival."""
        with self._changed:
            return list(self._spans)

    def wait_for(self, name: str, count: int = 1) -> None:
        """Return once so many spans of this name have come."""

        def come() -> bool:
            return sum(one.name == name for one in self._spans) >= count

        with self._changed:
            if not self._changed.wait_for(come, PATIENCE_SECONDS):
                raise TimeoutError(f"{[one.name for one in self._spans]}, and not {count} '{name}'")

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep the spans of a request."""
        with self._changed:
            for resource in request.resource_spans:
                service = str(_plain(resource.resource.attributes).get("service.name"))
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    shown = _plain(span.attributes)
                    whole = f"{resource.resource} {span}"
                    self._spans.append(
                        Collected(service, span.name, span.trace_id, span.span_id, span.parent_span_id, shown, whole)
                    )
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], collector: Collector) -> None:
        super().__init__(address, _Handler)
        self.collector = collector


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        if known:
            self.server.collector.take(ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def kept_spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where the spans that this process ends until the end of the test are kept, as if a collector got them."""
    exporter, provider = InMemorySpanExporter(), create_tracer_provider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def _plain(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = getattr(one.value, kind) if kind else None
    return found
