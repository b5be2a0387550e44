"""The agents of both peers: Pydantic AI with the OpenAI provider, and the same tools and instructions as ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, RunContext, Tool
from pydantic_ai.capabilities.abstract import AbstractCapability
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import UsageLimits

from benchmarks.contenders import tools
from benchmarks.contenders.texts import CALLEES, FUNCTIONS, GUARDED, INSTRUCTIONS

Function = Callable[..., Coroutine[Any, Any, Any]]
Peer = Agent[object, str | DeferredToolRequests]

NO_LIMIT = UsageLimits(request_limit=None)


def build_agents(
    durability: Callable[[], AbstractCapability[Any]], effect: Callable[[Function], Function]
) -> dict[str, Peer]:
    """An agent for each kind of worker, each with a durability of its own; `effect` makes a function durable."""
    provider = OpenAIProvider(base_url=os.environ["BENCH_MODEL_URL"], api_key="none")
    agents: dict[str, Peer] = {}
    for kind, names in FUNCTIONS.items():
        functions = [
            Tool[object](effect(getattr(tools, name)), name=name, requires_approval=name == GUARDED) for name in names
        ]
        if kind in CALLEES:
            functions.append(_delegation(CALLEES[kind], agents))
        agents[kind] = Agent[object, str | DeferredToolRequests](
            OpenAIChatModel("scripted", provider=provider),
            name=kind,
            instructions=INSTRUCTIONS,
            output_type=[str, DeferredToolRequests],
            toolsets=[FunctionToolset(functions, id=f"{kind}_tools")],
            capabilities=[durability()],
        )
    return agents


def _delegation(callee: str, agents: dict[str, Peer]) -> Tool[object]:
    """A tool that runs another agent in the caller's own workflow, as Pydantic AI's documentation delegates."""

    async def delegate(ctx: RunContext[object], input: str) -> str:  # noqa: A002 - what ours calls it
        """Let another agent do this."""
        result = await agents[callee].run(input, usage=ctx.usage, usage_limits=NO_LIMIT)
        return str(result.output)

    return Tool(delegate, name=callee, metadata={"temporal": False})
