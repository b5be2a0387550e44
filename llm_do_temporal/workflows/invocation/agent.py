"""The generic agent that runs every worker.

Built at import for workflow code, and once for the activities of each worker service. All differences between workers
(instructions, tools, model, output) are arguments that the workflow gives to `AGENT.run(...)`. Its name is part of the
activity's name, and so of the wire format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.trace import Span, SpanKind
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, ResolveModelId
from pydantic_ai.capabilities.abstract import WrapModelRequestHandler
from pydantic_ai.durable_exec.temporal import TemporalDurability, TemporalRunContext
from pydantic_ai.exceptions import ModelRetry, RetryModelRequest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.output import OutputContext
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import AgentNativeTool, ToolDefinition
from pydantic_ai.usage import RunUsage
from pydantic_core import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError
from temporalio.workflow import ActivityConfig

from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.activities.models.conversations import origin_of
from llm_do_temporal.activities.models.turns import ResolveAttachments, TurnStore
from llm_do_temporal.messages.base import AGENT_NAME
from llm_do_temporal.messages.conversation import CONVERSATION_SETTING
from llm_do_temporal.messages.sizes import TOO_LARGE
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
from llm_do_temporal.workflows.invocation.conversation import check_size
from llm_do_temporal.workflows.invocation.output import checked_output, failed_if_used_up, read_again, words_of
from llm_do_temporal.workflows.runtime.activities import HEARTBEAT_TIMEOUT
from llm_do_temporal.workflows.runtime.spans import count_turn

if TYPE_CHECKING:
    from llm_do_temporal.workflows.invocation.invocation import Invocation


def running_invocation() -> Invocation:
    """The invocation in the workflow that runs now. Only for code that the agent runs."""
    return workflow.instance().invocation


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


SERVER_SIDE_TOOLS = ("web_search", "web_fetch", "code_execution", "image_generation")
HIDDEN = "llmdo_hidden"
"""Key of a tool's metadata that hides it from the model."""


class InvocationHooks(AbstractCapability[Any]):
    """All that the running invocation does in the agent's loop.

    One capability: each hook of each capability costs a copy of the run's context, in every turn and every call.
    """

    def get_native_tools(self) -> Sequence[AgentNativeTool[Any]]:
        """See AbstractCapability. They are the server-side tools of the running workflow's worker."""
        return [_chosen(kind) for kind in SERVER_SIDE_TOOLS]

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Raises ModelFailed after too many wrong calls.

        Begins a new run of the workflow long before the server would suggest it, and waits until limits allow a turn.
        """
        parameters = request_context.model_request_parameters
        shown = [tool for tool in parameters.function_tools if not (tool.metadata or {}).get(HIDDEN)]
        if len(shown) < len(parameters.function_tools):
            # They still answer when they are called.
            request_context.model_request_parameters = replace(parameters, function_tools=shown)
        if workflow.in_workflow():
            running = running_invocation()
            running.check_slips()
            running.models.begin_turn()
            if running.conversation.fills_run:
                await go_on_as_new(ctx)
            await running.lease.begin_turn()
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Raises BudgetExceeded where the new messages are more than one request can carry.

        The agent's model and settings are those of the first model. The id alone tells the activity which model to
        build: the model object of the workflow is the same for all.
        """
        if not workflow.in_workflow():
            return request_context
        models = running_invocation().models
        if models.handovers:
            request_context.model = cast("Model", ctx.model)
            request_context.model_id = models.serving_id
            request_context.model_settings = models.settings
        _cut_to_new_messages(request_context)
        return request_context

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """See AbstractCapability. Writes the turn's span."""
        return (
            await in_turn_span(request_context, handler) if workflow.in_workflow() else await handler(request_context)
        )

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """See AbstractCapability. Counts the answer, its cost and its calls."""
        running = running_invocation()
        if workflow.in_workflow():
            lease, model = running.lease, running.models.shown
            if origin_of(response.metadata) is None:
                count_turn(response, worker=lease.worker, model=model)
            await lease.end_turn(response, model)
        running.count_tool_calls(response)
        return response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """See AbstractCapability. Asks the next model of the worker where one fails.

        Raises ModelFailed, or the error where no other model can mend it.
        """
        if workflow.in_workflow() and isinstance(error, FailureError) and running_invocation().models.fall_back(error):
            raise RetryModelRequest
        raise error

    async def on_tool_validate_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        error: ValidationError | ModelRetry,
    ) -> dict[str, Any]:
        """See AbstractCapability. Raises ToolFailed where the model may not correct the call once more."""
        try:
            return read_again(args, error)
        except (ValidationError, ModelRetry):
            failed_if_used_up(ctx, words_of(error))
            raise

    async def after_output_validate(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """See AbstractCapability. Holds structured output against the worker's schema.

        The agent is one for all workers, and the schema is known only to the workflow that runs it.
        """
        return await checked_output(running_invocation().input, output)


def _chosen(kind: str) -> AgentNativeTool[Any]:
    def tool(_context: RunContext[Any]) -> AbstractNativeTool | None:
        return running_invocation().server_side_tool(kind)

    return tool


async def go_on_as_new(context: RunContext[Any]) -> None:
    """Continue the running workflow as new, where that can be done yet."""
    await running_invocation().go_on_as_new(context.messages, context.usage)


def _cut_to_new_messages(request: ModelRequestContext) -> None:
    """Cut from a request the messages that an earlier one of the running workflow carried."""
    running = running_invocation()
    conversation, models = running.conversation, running.models
    messages, parameters, part = conversation.next_part(
        list(request.messages), request.model_request_parameters, again=models.handovers > 0
    )
    sent = {"tries": models.tries, "live": models.live, "batched": models.batched}
    part = part.model_copy(update={**sent, "parts": running.parts.of_turn()})
    check_size(messages, parameters)
    if part.answer is not None:
        said = ModelMessagesTypeAdapter.dump_python(messages[1:], mode="json")
        part = part.model_copy(update={"messages": said})
        messages = list[ModelMessage]([ModelRequest(parts=[])])
    settings = {**(request.model_settings or {}), CONVERSATION_SETTING: part.model_dump(exclude_defaults=True)}
    request.messages = messages
    request.model_request_parameters = parameters
    request.model_settings = cast("ModelSettings", settings)


TURN_TIMEOUT = timedelta(minutes=30)
"""Longest single attempt of a model turn; thinking models on long documents take many minutes."""
OUTPUT_RETRIES = 3
"""Largest number of times that a model may correct its structured output."""

_NEVER_USED_UP = 1_000_000
"""Retries of tools that do not exist; `Slips` counts them."""


class LeanRunContext(TemporalRunContext[Any]):
    """Run context of a model turn with the fields that its activity needs; the others are equal in every turn and stay
    in the workflow."""

    @classmethod
    def serialize_run_context(cls, ctx: RunContext[Any]) -> dict[str, Any]:
        """See TemporalRunContext."""
        carried = super().serialize_run_context(ctx)
        return {name: value for name, value in carried.items() if name not in _NOT_CARRIED}

    @classmethod
    def deserialize_run_context(cls, ctx: dict[str, Any], deps: Any) -> TemporalRunContext[Any]:
        """See TemporalRunContext."""
        return super().deserialize_run_context({**_NOT_CARRIED, **ctx}, deps)


_NOT_CARRIED: dict[str, Any] = {
    "run_id": None,
    "conversation_id": None,
    "metadata": None,
    "retries": {},
    "tool_call_id": None,
    "tool_name": None,
    "tool_call_approved": False,
    "tool_call_metadata": None,
    "retry": 0,
    "max_retries": 0,
    "partial_output": False,
    "usage": RunUsage(),
    "usage_limits": None,
    "deadline": None,
    "loaded_capability_ids": set(),
    "discovered_tool_names": set(),
    "_anchored_evidence": {"discovered_tool_names": [], "loaded_capability_ids": []},
    "available_tool_names": set(),
    "_tool_names_by_kind": {},
    "active_capability_ids": set(),
    "_deferred_capability_ids": set(),
    "capability_active": True,
}
"""Fields that `LeanRunContext` leaves out, with the values that stand for them in the activity, where no code of ours
reads them."""


def build_agent(store: TurnStore) -> Agent[object, Any]:
    """Return the agent, whose activity has this store for its turns."""
    return Agent(
        "placeholder:none",
        name=AGENT_NAME,
        retries={"tools": _NEVER_USED_UP, "output": OUTPUT_RETRIES},
        capabilities=[
            InvocationHooks(),
            ResolveModelId(partial(build_model, workshop=store.workshop)),
            ResolveAttachments(store),
            TemporalDurability(
                model_activity_config=ActivityConfig(
                    start_to_close_timeout=TURN_TIMEOUT,
                    heartbeat_timeout=HEARTBEAT_TIMEOUT,
                    # Unlimited attempts: a provider that is down for an hour leaves a run that waits and goes on.
                    # Errors that another attempt cannot mend, or that are left to another model, are marked
                    # non-retryable where they are raised.
                    retry_policy=RetryPolicy(
                        # After the death of a worker service mostly another one takes over at once.
                        initial_interval=timedelta(milliseconds=250),
                        maximum_interval=timedelta(minutes=2),
                        non_retryable_error_types=[TOO_LARGE],
                    ),
                    summary="LLM turn",
                ),
                continue_as_new=go_on_as_new,
                run_context_type=LeanRunContext,
            ),
        ],
    )


AGENT = build_agent(TurnStore())
"""The agent of workflow code, which sends nothing."""
