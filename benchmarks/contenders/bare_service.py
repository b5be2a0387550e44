"""The bare peer's worker process: Pydantic AI agents with `TemporalDurability`, as its documentation shows them.

python -m benchmarks.contenders.bare_service ADDRESS TASK_QUEUE
"""

from __future__ import annotations

import asyncio
import sys

from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from benchmarks.contenders.peers import NO_LIMIT, build_agents

AGENTS = build_agents(TemporalDurability, lambda function: function)


@workflow.defn
class BareRun(PydanticAIWorkflow):
    """One run of one agent; calls that need an approval wait for the signal `decide`."""

    __pydantic_ai_agents__ = tuple(AGENTS.values())

    def __init__(self) -> None:
        self._decided = False
        self._parked = False

    @workflow.run
    async def run(self, kind: str, prompt: str) -> int:
        """Returns the number of model requests that were counted."""
        agent = AGENTS[kind]
        result = await agent.run(prompt, usage_limits=NO_LIMIT)
        while isinstance(result.output, DeferredToolRequests):
            self._parked = True
            await workflow.wait_condition(lambda: self._decided)
            answers = DeferredToolResults(approvals={call.tool_call_id: True for call in result.output.approvals})
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=answers,
                usage=result.usage,
                usage_limits=NO_LIMIT,
            )
        return result.usage.requests

    @workflow.signal
    def decide(self) -> None:
        """Approve what waits."""
        self._decided = True

    @workflow.query
    def parked(self) -> bool:
        """Whether a person is being waited for."""
        return self._parked


async def serve(address: str, queue: str) -> None:
    """Serve until killed."""
    client = await Client.connect(address, plugins=[PydanticAIPlugin()])
    await Worker(client, task_queue=queue, workflows=[BareRun]).run()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
