"""Calls of tools that the author's Python makes, from workflow code, through the same gate as the model's calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_core import PydanticSerializationError, to_jsonable_python
from temporalio import workflow

from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.external import call_arguments
from llm_do_temporal.tools import IdempotencyKey, ToolCallFailed
from llm_do_temporal.workflows.runtime.activities import await_shielded
from llm_do_temporal.workflows.tools.gate import ENDS_INVOCATION, Gate, for_model
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, ToolOutcome


@dataclass
class ToolDispatch:
    """The gate, and the tools of the invocation by name: all that a call from code needs."""

    gate: Gate
    tools: dict[str, GatedTool] = field(default_factory=dict[str, GatedTool])


class WorkflowToolContext:
    """The `ToolContext` of one call of a function."""

    def __init__(self, dispatch: ToolDispatch, key: str) -> None:
        self.usage = Usage()
        """Usage of the calls together."""
        self.notes: list[str] = []
        """Changes that people made to the calls, as notes for the model."""
        self.stopped: Exception | None = None
        """First error of a call that ends the whole invocation; None: none did."""
        self._dispatch = dispatch
        self._key = key
        self._open: list[asyncio.Task[ToolOutcome]] = []
        self._closed = False

    @property
    def idempotency_key(self) -> IdempotencyKey:
        """See ToolContext."""
        return IdempotencyKey(self._key)

    async def call_tool(
        self,
        name: str,
        input: str | Mapping[str, Any],  # noqa: A002 - the name that authors know
        *,
        attachments: Sequence[str] | None = None,
    ) -> Any:
        """See ToolContext."""
        self._check_open()
        tool = self._dispatch.tools.get(name)
        if tool is None:
            has = ", ".join(f"'{known}'" for known in sorted(self._dispatch.tools))
            raise ToolCallFailed(f"there is no tool '{name}'; this worker has {has}")
        return (await self.carry_out(tool, _arguments(tool, input, attachments))).value

    async def carry_out(self, tool: GatedTool, args: dict[str, Any], context: Context | None = None) -> ToolOutcome:
        """Carry out the call of a tool, in `context`; None: in the context of the awaiting task.

        Raises ToolCallFailed, or one of ENDS_INVOCATION.
        """
        self._check_open()
        task = asyncio.create_task(self._carry_out(tool, args), context=context)
        self._open.append(task)
        return await await_shielded(task)

    @property
    def is_waiting(self) -> bool:
        """Whether a call is under way."""
        return any(not task.done() for task in self._open)

    def _check_open(self) -> None:
        if self.stopped is not None:
            raise self.stopped
        if self._closed:
            raise ToolCallFailed("the function has ended, so it cannot call tools any more")

    async def close(self) -> None:
        """Cancel the calls that the function did not wait for, and take back their questions."""
        self._closed = True
        running = [task for task in self._open if not task.done()]
        for task in running:
            task.cancel()
        with anyio.CancelScope(shield=True):
            if running:
                await workflow.wait(running)
                await self._dispatch.gate.withdraw_abandoned()
        for task in self._open:
            if not task.cancelled():
                task.exception()  # seen: asyncio need not warn that no code asked for it

    async def _carry_out(self, tool: GatedTool, args: dict[str, Any]) -> ToolOutcome:
        try:
            outcome = await self._dispatch.gate.execute(tool, args)
        except (ToolFailed, ModelRetry) as error:
            raise ToolCallFailed(error.message) from error
        except ENDS_INVOCATION as stop:
            self.stopped = self.stopped or stop
            raise
        self.usage = self.usage.plus(outcome.usage)
        if outcome.note:
            self.notes.append(outcome.note)
        if outcome.failure is not None:
            raise ToolCallFailed(for_model(outcome.failure)) from outcome.failure
        return outcome


def _arguments(tool: GatedTool, given: Any, attachments: Sequence[str] | None) -> dict[str, Any]:
    try:
        plain = to_jsonable_python(given)
        paths = None if attachments is None else [str(path) for path in attachments]
    except (PydanticSerializationError, ValueError) as error:
        raise ToolCallFailed(f"the input of '{tool.name}' cannot be written as JSON: {error}") from error
    if not isinstance(plain, str | dict):
        raise ToolCallFailed(f"the input of '{tool.name}' is a {type(given).__name__}; give it a text or a mapping")
    try:
        return call_arguments(tool.name, tool.schema, cast("str | dict[str, Any]", plain), paths)
    except EffectFailed as error:
        raise ToolCallFailed(str(error)) from error
