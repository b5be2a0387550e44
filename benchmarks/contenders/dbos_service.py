"""The DBOS peer's process: the same agents with `DBOSDurability` on SQLite.

    python -m benchmarks.contenders.dbos_service DATABASE_URL

Commands come as lines of JSON on stdin, because the natural client of DBOS is the process itself: `["start", RUN, KIND,
PROMPT]` and `["decide", RUN]`. Lines on stdout tell what happened: `["ready"]`, `["parked", RUN]`, `["done", RUN,
REQUESTS]`.
"""

# The package is of the dependency group `bench`; the rest of the project is checked without it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.durable_exec.dbos import DBOSDurability

from benchmarks.contenders.peers import NO_LIMIT, build_agents

TOPIC = "decision"
WEEK_SECONDS = 7 * 24 * 3600


def say(*words: Any) -> None:
    """Tell the driver."""
    print(json.dumps(words), flush=True)


async def serve(url: str) -> None:
    """Serve until stdin ends."""
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    agents = build_agents(DBOSDurability, lambda function: DBOS.step()(function))

    @DBOS.workflow()
    async def peer_run(kind: str, prompt: str) -> int:
        agent, run = agents[kind], DBOS.workflow_id
        result = await agent.run(prompt, usage_limits=NO_LIMIT)
        while isinstance(result.output, DeferredToolRequests):
            say("parked", run)
            await DBOS.recv_async(TOPIC, timeout_seconds=WEEK_SECONDS)
            answers = DeferredToolResults(approvals={call.tool_call_id: True for call in result.output.approvals})
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=answers,
                usage=result.usage,
                usage_limits=NO_LIMIT,
            )
        say("done", run, result.usage.requests)
        return result.usage.requests

    DBOS.launch()
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, run, *rest = json.loads(line)
        if word == "start":
            with SetWorkflowID(run):
                await DBOS.start_workflow_async(peer_run, *rest)
        else:
            await DBOS.send_async(run, "approved", TOPIC)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
