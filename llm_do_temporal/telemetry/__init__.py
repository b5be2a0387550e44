"""Telemetry of this process for an OpenTelemetry collector, as the standard `OTEL_*` variables say.

Owns the switch: nothing of OpenTelemetry is loaded where the environment does not ask for it. Entry points begin and
end it; connections take its interceptors. The content of spans is decided in `spans`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from temporalio.client import Interceptor

SERVICE = "llm-do-temporal"
"""`service.name` where no variable gives another."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTERS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_INSTALL = "`pip install '.[otel]'` in the checkout"
_log = logging.getLogger(__name__)
_end: Callable[[], None] | None = None
"""Function that sends the rest of the spans; None while this process does not trace."""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether these variables name a collector for spans, and none of them says that it gets nothing."""
    chosen = {name.strip() for name in environment.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or (chosen and "otlp" not in chosen):
        return False
    return "otlp" in chosen or any(environment.get(name) for name in _ENDPOINTS)


def begin_telemetry(*, http: bool = False) -> bool:
    """Trace from here on where the environment asks for it; returns whether it does and the means are installed.

    For the entry point of a process, before anything connects. `http`: also the HTTP requests of this process.
    """
    global _end
    if _end is not None or not is_wanted(os.environ):
        return _end is not None
    try:
        exporter = _exporter()
        if exporter is None:
            return False
        from llm_do_temporal.telemetry.exporter import send_http_spans, send_spans

        _end = send_spans(exporter, SERVICE)
    except ValueError as error:
        # Each of these variables is read by another part of the library, when it is loaded or made.
        _log.warning("nothing is traced: what the OTEL_* variables say cannot be used: %s", error)
        return False
    if http:
        try:
            send_http_spans()
        except ImportError as error:
            _log.warning("HTTP requests are not traced: %s; %s brings it", error, _INSTALL)
    return True


def end_telemetry(seconds: float) -> bool:
    """Send the spans that are left, for at most so many seconds; return whether that was long enough.

    A collector that is down keeps nobody.
    """
    if _end is None:
        return True
    sending = threading.Thread(target=_end, name="telemetry", daemon=True)
    sending.start()
    sending.join(seconds)
    return not sending.is_alive()


def tracing_interceptors() -> Sequence[Interceptor]:
    """Return the interceptors by which the spans of several processes are one trace; for a client and its workers."""
    if _end is None:
        return []
    from temporalio.contrib.opentelemetry import OpenTelemetryInterceptor

    return [OpenTelemetryInterceptor()]


@contextmanager
def start_span(worker: str, run: str) -> Generator[None]:
    """The span of starting a run: the root of its trace, where nothing around it has begun one."""
    if _end is None:
        yield
        return
    from opentelemetry.trace import SpanKind

    from llm_do_temporal.telemetry.spans import span

    with span(f"start {worker}", {"llm_do.worker": worker, "llm_do.run": run}, kind=SpanKind.CLIENT):
        yield


def _exporter() -> SpanExporter | None:
    """The exporter for the protocol that the environment names; None, with a warning, where it is not installed."""
    from importlib.metadata import entry_points

    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "http/protobuf")
    found = entry_points(group="opentelemetry_traces_exporter", name=_EXPORTERS.get(protocol, protocol))
    try:
        kind: Any = next(iter(found)).load()
        return kind()
    except (StopIteration, ImportError):
        _log.warning(
            "nothing is traced: an exporter for OTLP over %s is not installed; %s has the one for http/protobuf",
            protocol,
            _INSTALL,
        )
    return None
