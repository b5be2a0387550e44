"""The capability by which the one agent calls on the invocation that runs it.

The agent is one for all workers; models, limits, conversation and tools are known only to the running invocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import WrapModelRequestHandler
from pydantic_ai.exceptions import ModelRetry, RetryModelRequest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.output import OutputContext
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import AgentNativeTool, ToolDefinition
from pydantic_core import ValidationError
from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.activities.models.conversations import origin_of
from llm_do_temporal.messages.conversation import CONVERSATION_SETTING
from llm_do_temporal.workflows.invocation.conversation import check_size
from llm_do_temporal.workflows.invocation.running_invocation import running_invocation
from llm_do_temporal.workflows.invocation.slips import failed_if_used_up, read_again, words_of
from llm_do_temporal.workflows.invocation.turn_spans import in_turn_span
from llm_do_temporal.workflows.runtime.metrics import count_turn

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
        if workflow.in_workflow():
            running_invocation().check_slips()
        request_context.model_request_parameters = _without_hidden(request_context.model_request_parameters)
        if workflow.in_workflow():
            running = running_invocation()
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
        return await running_invocation().check_output(output)


def _without_hidden(parameters: ModelRequestParameters) -> ModelRequestParameters:
    """Return the request without the marked tools; they still answer when they are called."""
    shown = [tool for tool in parameters.function_tools if not (tool.metadata or {}).get(HIDDEN)]
    return parameters if len(shown) == len(parameters.function_tools) else replace(parameters, function_tools=shown)


def _chosen(kind: str) -> AgentNativeTool[Any]:
    def tool(_context: RunContext[Any]) -> AbstractNativeTool | None:
        return running_invocation().server_side_tool(kind)

    return tool


async def go_on_as_new(context: RunContext[Any]) -> None:
    """Continue the running workflow as new, where that can be done yet."""
    await running_invocation().go_on_as_new(context.messages, context.usage)


def _cut_to_new_messages(request: ModelRequestContext) -> None:
    """Cut from a request the messages that an earlier one of the running workflow carried."""
    conversation, models = running_invocation().conversation, running_invocation().models
    messages, parameters, part = conversation.next_part(
        list(request.messages), request.model_request_parameters, again=models.handovers > 0
    )
    sent = {"tries": models.tries, "live": models.live, "batched": models.batched}
    part = part.model_copy(update={**sent, "parts": running_invocation().parts_of_turn})
    check_size(messages, parameters)
    if part.answer is not None:
        said = ModelMessagesTypeAdapter.dump_python(messages[1:], mode="json")
        part = part.model_copy(update={"messages": said})
        messages = list[ModelMessage]([ModelRequest(parts=[])])
    settings = {**(request.model_settings or {}), CONVERSATION_SETTING: part.model_dump(exclude_defaults=True)}
    request.messages = messages
    request.model_request_parameters = parameters
    request.model_settings = cast("ModelSettings", settings)
