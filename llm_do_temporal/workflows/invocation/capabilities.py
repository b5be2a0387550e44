"""Capabilities of the one agent, each a hook by which it calls on the invocation that runs it.

The agent is one for all workers; models, limits, conversation and tools are known only to the running invocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry, RetryModelRequest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext
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
from llm_do_temporal.workflows.runtime.metrics import count_turn

SERVER_SIDE_TOOLS = ("web_search", "web_fetch", "code_execution", "image_generation")
HIDDEN = "llmdo_hidden"
"""Key of a tool's metadata that hides it from the model."""


class OutputCheck(AbstractCapability[Any]):
    """Lets the running workflow hold structured output against its worker's schema.

    The agent is one for all workers, and the schema is known only to the workflow that runs it.
    """

    async def after_output_validate(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """See AbstractCapability."""
        return await running_invocation().check_output(output)


class ToolCallCount(AbstractCapability[Any]):
    """Tells the running workflow every answer of its model."""

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """See AbstractCapability."""
        running_invocation().count_tool_calls(response)
        return response


class WrongCalls(AbstractCapability[Any]):
    """Judges arguments that are no JSON object, and a model that makes wrong calls alone."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Raises ModelFailed."""
        if workflow.in_workflow():
            running_invocation().check_slips()
        return request_context

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


class ServerSideTools(AbstractCapability[Any]):
    """Offers the server-side tools of the running workflow's worker."""

    def get_native_tools(self) -> Sequence[AgentNativeTool[Any]]:
        """See AbstractCapability."""
        return [_chosen(kind) for kind in SERVER_SIDE_TOOLS]


def _chosen(kind: str) -> AgentNativeTool[Any]:
    def tool(_context: RunContext[Any]) -> AbstractNativeTool | None:
        return running_invocation().server_side_tool(kind)

    return tool


class HiddenTools(AbstractCapability[Any]):
    """Hides marked tools from the model; they still answer when they are called."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability."""
        parameters = request_context.model_request_parameters
        shown = [tool for tool in parameters.function_tools if not (tool.metadata or {}).get(HIDDEN)]
        request_context.model_request_parameters = replace(parameters, function_tools=shown)
        return request_context


class ModelFallback(AbstractCapability[Any]):
    """Lets the next model of the running workflow's worker answer where one fails."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability."""
        if workflow.in_workflow():
            running_invocation().models.begin_turn()
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. The agent's model and settings are those of the first.

        The id alone tells the activity which model to build: the model object of the workflow is the same for all.
        """
        if workflow.in_workflow() and running_invocation().models.handovers:
            request_context.model = cast("Model", ctx.model)
            request_context.model_id = running_invocation().models.serving_id
            request_context.model_settings = running_invocation().models.settings
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """See AbstractCapability. Raises ModelFailed, or the error where no other model can mend it."""
        if workflow.in_workflow() and isinstance(error, FailureError) and running_invocation().models.fall_back(error):
            raise RetryModelRequest
        raise error


async def go_on_as_new(context: RunContext[Any]) -> None:
    """Continue the running workflow as new, where that can be done yet."""
    await running_invocation().go_on_as_new(context.messages, context.usage)


class IncrementalHistory(AbstractCapability[Any]):
    """Cuts from each request the messages that an earlier one of the running workflow carried."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Begins a new run of the workflow long before the server would suggest it."""
        if running_invocation().conversation.fills_run:
            await go_on_as_new(ctx)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Raises BudgetExceeded where the new messages are more than one request can carry."""
        if not workflow.in_workflow():
            return request_context
        conversation, models = running_invocation().conversation, running_invocation().models
        messages, parameters, part = conversation.next_part(
            list(request_context.messages), request_context.model_request_parameters, again=models.handovers > 0
        )
        forked = running_invocation().forked
        sent = {"tries": models.tries, "live": models.live, "batched": models.batched}
        part = part.model_copy(update={**sent, **forked})
        check_size(messages, parameters)
        if part.answer is not None:
            said = ModelMessagesTypeAdapter.dump_python(messages[1:], mode="json")
            part = part.model_copy(update={"messages": said})
            messages = list[ModelMessage]([ModelRequest(parts=[])])
        settings = {
            **(request_context.model_settings or {}),
            CONVERSATION_SETTING: part.model_dump(exclude_defaults=True),
        }
        request_context.messages = messages
        request_context.model_request_parameters = parameters
        request_context.model_settings = cast("ModelSettings", settings)
        return request_context


class BudgetCapability(AbstractCapability[Any]):
    """Lets the running workflow's turns start when its limits allow it, and counts their cost."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability."""
        if workflow.in_workflow():
            await running_invocation().lease.begin_turn()
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """See AbstractCapability."""
        if workflow.in_workflow():
            lease, model = running_invocation().lease, running_invocation().models.shown
            if origin_of(response.metadata) is None:
                count_turn(response, worker=lease.worker, model=model)
            await lease.end_turn(response, model)
        return response
