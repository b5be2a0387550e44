"""Spans of runs while they go on, and their permitted content.

Owns how a span begins and ends. By default no prompt, answer, argument or result is in one. Where no collector is
configured (`telemetry`), all of this costs next to nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.redaction.configured_keys import remove_keys

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SHOWS_CONTENT = ("true", "span_only", "span_and_event")
_ERROR_CHARS = 500
_OUTSIDE = context.create_key("llm-do-outside-workflow")
Attributes = Mapping[str, Any]


@contextmanager
def span(
    name: str, attributes: Attributes, *, kind: SpanKind = SpanKind.INTERNAL, workflow_wide: bool = False
) -> Generator[Span]:
    """Begin a span, and end it with the block. Attributes that are None are left out.

    `workflow_wide`: the span is that of the whole workflow, and ends also when the workflow goes on as new. Any other
    span that is left so was an attempt, and is not sent.
    """
    one = trace.get_tracer("llm-do-temporal").start_span(name, kind=kind, attributes=_known(attributes))
    inside = trace.set_span_in_context(one)
    if workflow_wide and context.get_value(_OUTSIDE) is None:
        # Of two such spans, as a run and its entry invocation are, the outer one's.
        inside = context.set_value(_OUTSIDE, context.get_current(), inside)
    token = context.attach(inside)
    try:
        # The library's own way to end a span tells of exceptions with all that stands in them.
        yield one
    except (Exception, asyncio.CancelledError) as error:
        fail(one, error)
        one.end()
        raise
    except workflow.ContinueAsNewError:
        if workflow_wide:
            one.end()
        raise
    finally:
        context.detach(token)
    one.end()


@contextmanager
def outside_workflow_span() -> Generator[None]:
    """Let spans that begin in the block stand beside the span of the whole workflow, not below those in it."""
    outside = context.get_value(_OUTSIDE)
    token = context.attach(outside if isinstance(outside, Context) else Context())
    try:
        yield
    finally:
        context.detach(token)


def tell(one: Span, attributes: Attributes) -> None:
    """Add attributes to a span; those that are None are left out."""
    one.set_attributes(_known(attributes))


def fail(one: Span, error: BaseException) -> None:
    """Mark the span as failed, with the type of the error; with its message only where content is wanted."""
    while not isinstance(error, (LlmDoError, ApplicationError)) and error.__cause__ is not None:
        error = error.__cause__
    known = error.type if isinstance(error, ApplicationError) else None
    one.set_attribute("error.type", known or type(error).__name__)
    one.set_status(StatusCode.ERROR, remove_keys(str(error))[:_ERROR_CHARS] if shows_content() else None)


def shows_content() -> bool:
    """Return whether the environment asks for prompts, answers, arguments and results in spans."""
    return os.environ.get(_CONTENT, "").lower() in _SHOWS_CONTENT


def will_tell(one: Span) -> bool:
    """Return whether attributes added to the span now will be sent: not in a replay, nor without a collector."""
    return one.is_recording() and not (workflow.in_workflow() and workflow.unsafe.is_replaying())


def _known(attributes: Attributes) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
