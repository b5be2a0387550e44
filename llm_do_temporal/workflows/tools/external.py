"""Tools of toolsets from elsewhere: Python packages and MCP servers.

Their names, descriptions and schemas are listed by an activity once, when an invocation begins, and stay so until it
ends. Every call passes the gate and is carried out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.activities import (
    CALL_EXTERNAL_TOOL,
    EXTERNAL_CAPABILITIES,
    LIST_EXTERNAL_TOOLS,
    CallExternalToolInput,
    ListExternalToolsInput,
)
from llm_do_temporal.messages.definitions import ExternalTool, ExternalToolListing, ExternalToolset
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.external import check_names, offered_names, policy_of, toolset_digest, uses_of_external
from llm_do_temporal.policy.models import models_of, serving_id
from llm_do_temporal.workflows.runtime.activities import run_activity
from llm_do_temporal.workflows.tools.at_most_once import LONGEST_WAIT, ask_whether_to_repeat, run_at_most_once
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, PreparedCall, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.python import Errands

CALL_TIMEOUT = timedelta(minutes=10)
"""Longest call of a tool from elsewhere; a search or a query takes seconds, a slow service some minutes.
The time that it waits for workers that it calls is not counted."""
OUTPUT_TOOL = "final_result"
"""Name of the tool for structured output; no other tool may have it."""


async def list_external(errands: Errands) -> ExternalToolListing:
    """List the tools of the worker's toolsets from elsewhere; a toolset that cannot be used has none."""
    invocation = errands.invocation
    toolsets = invocation.worker.external
    if not toolsets:
        return ExternalToolListing()
    return await run_activity(
        LIST_EXTERNAL_TOOLS,
        ListExternalToolsInput(toolsets=toolsets, model=_model(invocation), caller=errands.caller()),
        summary=f"list tools of {', '.join(toolset.name for toolset in toolsets)}",
    )


def external_tools(errands: Errands, listing: ExternalToolListing) -> list[ExternalCall]:
    """Return the listed tools, each under a plain name, ready for the gate; log the listing's warnings."""
    invocation = errands.invocation
    model = _model(invocation)
    check_required(invocation.worker.external, listing)
    tools: list[ExternalCall] = []
    for toolset, found in zip(invocation.worker.external, listing.toolsets, strict=True):
        for warning in found.warnings:
            workflow.logger.warning("%s: %s", invocation.worker.name, warning)
        names = offered_names(toolset.prefix, [tool.name for tool in found.tools])
        for tool, name in zip(found.tools, names, strict=True):
            tools.append(ExternalCall(errands, toolset, tool, name, found.judges_calls, model))
    return tools


def check_required(toolsets: Sequence[ExternalToolset], listing: ExternalToolListing) -> None:
    """Raise DefinitionError for a toolset that is required and cannot be used."""
    for toolset, found in zip(toolsets, listing.toolsets, strict=True):
        if toolset.required and found.unusable:
            why = (
                found.warnings[0].partition("the worker runs without it: ")[2] if found.warnings else "it has no tools"
            )
            raise DefinitionError(
                f"toolset '{toolset.name}' is required and cannot be used: {why}",
                next_step="Repair the toolset where the worker service runs, or leave out `required: true`.",
            )


def _model(invocation: InvokeWorkerInput) -> str:
    """Return the id of the invocation's model for a toolset: the first, where there are several."""
    return serving_id(invocation.settings.models.aliases, models_of(invocation.model)[0])


def check_tool_names(own: Mapping[str, Sequence[GatedTool]], external: Sequence[ExternalCall]) -> None:
    """Raise DefinitionError, with both toolsets in it, where two tools have one name; `own` is by name of the
    toolset."""
    named = [(tool.name, toolset) for toolset, tools in own.items() for tool in tools]
    named += [(tool.name, tool.toolset.name) for tool in external]
    check_names([(OUTPUT_TOOL, "structured output"), *named])


@dataclass
class ExternalCall:
    """Tool of a toolset from elsewhere."""

    errands: Errands
    toolset: ExternalToolset
    tool: ExternalTool
    name: str
    judges_calls: bool
    model: str

    def __post_init__(self) -> None:
        self.description = self.tool.description
        self.schema: dict[str, Any] = self.tool.parameters

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Judge the capabilities that the call uses; the effect makes the call, once."""
        policy = policy_of(self.toolset.policy, self.toolset.tools, self.tool.name, asks=self.tool.asks)
        request = CallExternalToolInput(
            toolset=self.toolset,
            tool=self.tool.name,
            args=args,
            model=self.model,
            caller=self.errands.caller(),
            limit_seconds=CALL_TIMEOUT.total_seconds(),
        )
        capabilities: tuple[str, ...] = ()
        if self.judges_calls:
            judged = await run_activity(EXTERNAL_CAPABILITIES, request, summary=f"judge {self.name}")
            capabilities = judged.capabilities
        digest = toolset_digest(self.toolset.model_dump_json())
        uses = uses_of_external(self.name, policy, capabilities, toolset=self.toolset.name, sha256=digest)
        question = ToolQuestion(uses, args, f"{self.name} of {self.toolset.name}")

        async def effect() -> ToolOutcome:
            key = self.errands.key_of(self.name, args)
            called = request.model_copy(update={"caller": self.errands.caller(key)})
            return await self.errands.carry_out(key, lambda: self._called(called, question))

        return PreparedCall((question,), effect)

    async def _called(self, request: CallExternalToolInput, question: ToolQuestion) -> Any:
        desk, settings = self.errands.desk, self.errands.invocation.settings
        result = await run_at_most_once(
            CALL_EXTERNAL_TOOL,
            request,
            summary=f"call {self.name}",
            timeout=LONGEST_WAIT,
            ask=ask_whether_to_repeat(desk, settings, self, question, what=f"a call of {self.name}"),
        )
        return result.value
