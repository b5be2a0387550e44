"""OpenTelemetry spans whose ids and times come from histories, so that reading twice gives the same trace.

Owns ids, and the shape of a span. Called by `build` and `flow`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

_NAME = "llm-do-temporal"


@dataclass
class OpenSpan:
    """Span that has begun. Times are nanoseconds since 1970, in UTC."""

    key: str
    """Name of the span within its trace, the same each time the histories are read."""
    name: str
    start: int
    parent: str | None = None
    """The key of the span around it."""
    kind: SpanKind = SpanKind.INTERNAL
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[Event] = field(default_factory=list[Event])


class Trace:
    """The ids and the resource that all spans of one run share."""

    def __init__(self, run: str) -> None:
        self._trace_id = _number(run, 16)
        self._resource = Resource({"service.name": _NAME, "service.version": version(_NAME)})
        self._scope = InstrumentationScope(_NAME, version(_NAME))

    def ended(self, span: OpenSpan, end: int | None, *, error: str | None = None) -> ReadableSpan:
        """The span as it is exported; `end` is None for one that was still open when the trace was written."""
        status = Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error)
        return ReadableSpan(
            name=span.name,
            context=self._context(span.key),
            parent=None if span.parent is None else self._context(span.parent),
            resource=self._resource,
            attributes={name: value for name, value in span.attributes.items() if value is not None},
            events=span.events,
            kind=span.kind,
            status=status,
            start_time=span.start,
            end_time=None if end is None else max(span.start, end),
            instrumentation_scope=self._scope,
        )

    def _context(self, key: str) -> SpanContext:
        return SpanContext(self._trace_id, _number(key, 8), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _number(text: str, size: int) -> int:
    """An id of `size` bytes that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big")
