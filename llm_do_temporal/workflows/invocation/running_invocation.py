"""The invocation whose workflow runs the agent, as the agent's capabilities see it.

The agent is one for all workers, so its capabilities find their invocation here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.usage import RunUsage
from temporalio import workflow

from llm_do_temporal.messages.base import Json
from llm_do_temporal.workflows.invocation.budget import BudgetLease
from llm_do_temporal.workflows.invocation.conversation import Conversation
from llm_do_temporal.workflows.invocation.model_fallback import FallbackChain


class RunningInvocation(Protocol):
    """An invocation that runs the agent, as the agent's capabilities see it."""

    models: FallbackChain
    conversation: Conversation
    lease: BudgetLease

    @property
    def parts_of_turn(self) -> dict[str, Json]:
        """Values that capabilities are told of each model turn, by their names."""
        ...

    async def check_output(self, output: Any) -> Any:
        """The structured output as callers get it. Raises ModelRetry where it does not fit the worker's schema."""
        ...

    def count_tool_calls(self, response: ModelResponse) -> None:
        """Add the tool calls of an answer."""
        ...

    def check_slips(self) -> None:
        """Raise ModelFailed before a turn where the model does nothing but wrong calls."""
        ...

    def server_side_tool(self, kind: str) -> AbstractNativeTool | None:
        """The tool of this kind that the model's provider runs; None where the worker has none."""
        ...

    async def go_on_as_new(self, messages: Sequence[ModelMessage], usage: RunUsage) -> None:
        """Continue the workflow as new, between two turns; returns where that cannot be done yet."""
        ...


class _Invoking(Protocol):
    invocation: RunningInvocation


def running_invocation() -> RunningInvocation:
    """The invocation in the workflow that runs now. Only for code that the agent runs."""
    return cast("_Invoking", workflow.instance()).invocation
