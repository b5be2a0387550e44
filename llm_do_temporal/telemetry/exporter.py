"""Sends the spans of this process to a collector. Loaded by `telemetry` alone, and only where there is a collector.

Owns what leaves the process: no stack traces, no addresses beyond the host, no key, and no header of ours to anybody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, Status
from temporalio.contrib.opentelemetry import create_tracer_provider

from llm_do_temporal.redaction.configured_keys import remove_keys, without_keys


def send_spans(exporter: SpanExporter, service: str) -> Callable[[], None]:
    """Make every span of this process go to `exporter`. Returns what sends the rest and ends it.

    The provider is the SDK's: spans of workflow code have ids that a replay makes again, and end once.
    """
    # Resource attributes given here would win over the variables.
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    attributes = {"service.version": version("llm-do-temporal")} | ({} if named else {"service.name": service})
    provider = create_tracer_provider(
        resource=Resource.create(attributes),
        # The events of a span are exceptions, whose messages and stack traces tell paths and what was said.
        span_limits=SpanLimits(max_events=0),
        shutdown_on_exit=False,
    )
    processor = BatchSpanProcessor(_Keyless(exporter))
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    if "OTEL_PROPAGATORS" not in os.environ:
        # Providers of models need not know of our traces. Temporal's headers do not depend on this.
        propagate.set_global_textmap(CompositePropagator([]))
    return processor.shutdown


class _Keyless(SpanExporter):
    """Takes the values of keys out of what libraries say of their errors, and out of prompts where they are wanted."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See SpanExporter."""
        return self._exporter.export([_keyless(span) for span in spans])

    def shutdown(self) -> None:
        """See SpanExporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """See SpanExporter."""
        return self._exporter.force_flush(timeout_millis)


def _keyless(span: ReadableSpan) -> ReadableSpan:
    said = span.status.description
    return ReadableSpan(
        name=remove_keys(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=without_keys(dict(span.attributes or {})),
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status if said is None else Status(span.status.status_code, remove_keys(said)),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def send_http_spans() -> None:
    """Make every HTTP request of this process a span."""
    # The names of attributes as they are today. With those of before, which the library still gives unless it is told
    # otherwise, whole addresses would go out.
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "http"
    from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor

    for kind in (HTTPX2ClientInstrumentor, HTTPXClientInstrumentor):
        kind().instrument(request_hook=_hide, async_request_hook=_hide_async)


def _hide(span: Span, request: Any) -> None:
    """Leave of an address what names the server: paths and queries hold keys, of webhooks above all."""
    url = request.url
    span.set_attribute("url.full", f"{url.scheme}://{url.host}{f':{url.port}' if url.port else ''}/")


async def _hide_async(span: Span, request: Any) -> None:
    _hide(span, request)
