"""The span of each turn of a model, written by the agent that asks for the turn."""

from __future__ import annotations

import asyncio

from opentelemetry.trace import Span, SpanKind
from pydantic_ai.capabilities.abstract import WrapModelRequestHandler
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import ModelRequestContext
from temporalio import workflow

from llm_do_temporal.telemetry.contents import (
    answer_attributes,
    as_text,
    input_messages,
    new_messages,
    output_message,
    request_messages,
    turn_shape,
)
from llm_do_temporal.telemetry.spans import shows_content, span, tell, will_tell
from llm_do_temporal.workflows.invocation.running_invocation import running_invocation


async def in_turn_span(request: ModelRequestContext, handler: WrapModelRequestHandler) -> ModelResponse:
    """Ask for a turn within its span, which has the waiting for limits and the other models that were asked in it."""
    name, attributes = turn_shape(workflow.info().workflow_id, None)
    with span(name, attributes, kind=SpanKind.CLIENT) as current:
        try:
            response = await handler(request)
        except (Exception, asyncio.CancelledError):
            _tell_model(current)
            raise
        _tell_model(current)
        if will_tell(current):
            _tell_turn(current, request, response)
    return response


def _tell_model(current: Span) -> None:
    """Name the span after the model that was asked in the end, which is not known when the turn begins."""
    name, attributes = turn_shape(workflow.info().workflow_id, running_invocation().models.full_name)
    current.update_name(name)
    tell(current, attributes)


def _tell_turn(current: Span, request: ModelRequestContext, response: ModelResponse) -> None:
    answer = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    settings = request.model_settings or {}
    asking = {f"gen_ai.request.{name}": settings.get(name) for name in ("temperature", "max_tokens")}
    attributes = {**asking, **answer_attributes(answer)}
    if shows_content():
        carried = ModelMessagesTypeAdapter.dump_python(request.messages, mode="json")
        new = new_messages(request_messages({"messages": carried, "model_settings": settings}))
        attributes["gen_ai.input.messages"] = as_text(input_messages(new, binary=False))
        attributes["gen_ai.output.messages"] = as_text([output_message(answer, binary=False)])
    tell(current, attributes)
