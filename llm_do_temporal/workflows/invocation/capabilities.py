"""Capabilities of the one agent: what it checks, counts and hides on behalf of the invocation that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import AgentNativeTool
from temporalio import workflow

SERVER_SIDE_TOOLS = ("web_search", "web_fetch", "code_execution", "image_generation")
HIDDEN = "llmdo_hidden"
"""The key of a tool's metadata that hides it from the model."""


class ChecksOutput(Protocol):
    """A workflow that judges its agent's structured output."""

    async def check_output(self, output: Any) -> Any:
        """The output as it is to be, or ModelRetry."""
        ...


class OutputCheck(AbstractCapability[Any]):
    """Lets the running workflow hold structured output against its worker's schema.

    The agent is one for all workers, and the schema is known only to the workflow that runs it.
    """

    async def after_output_validate(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """See AbstractCapability."""
        return await cast("ChecksOutput", workflow.instance()).check_output(output)


class CountsToolCalls(Protocol):
    """A workflow that counts what its agent's model asks for."""

    def count_tool_calls(self, response: ModelResponse) -> None:
        """Add the tool calls of an answer."""
        ...


class ToolCallCount(AbstractCapability[Any]):
    """Tells the running workflow every answer of its model."""

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """See AbstractCapability."""
        cast("CountsToolCalls", workflow.instance()).count_tool_calls(response)
        return response


class HasServerSideTools(Protocol):
    """A workflow whose worker may have tools that its model's provider runs."""

    def server_side_tool(self, kind: str) -> AbstractNativeTool | None:
        """The tool of this kind, or None where the worker has none."""
        ...


class ServerSideTools(AbstractCapability[Any]):
    """Offers the server-side tools of the running workflow's worker."""

    def get_native_tools(self) -> Sequence[AgentNativeTool[Any]]:
        """See AbstractCapability."""
        return [_chosen(kind) for kind in SERVER_SIDE_TOOLS]


def _chosen(kind: str) -> AgentNativeTool[Any]:
    def tool(_context: RunContext[Any]) -> AbstractNativeTool | None:
        return cast("HasServerSideTools", workflow.instance()).server_side_tool(kind)

    return tool


class HiddenTools(AbstractCapability[Any]):
    """Keeps tools marked as hidden out of what a model is shown; they still answer when they are called."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability."""
        parameters = request_context.model_request_parameters
        shown = [tool for tool in parameters.function_tools if not (tool.metadata or {}).get(HIDDEN)]
        request_context.model_request_parameters = replace(parameters, function_tools=shown)
        return request_context
