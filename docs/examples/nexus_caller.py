"""Worker of another team, in another namespace, whose workflow calls a worker of ours through Nexus.

Start it with `python nexus_caller.py NAMESPACE TASK_QUEUE`; it needs `temporalio` alone. TEMPORAL_ADDRESS says where
the server is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker


@workflow.defn
class CallWorker:
    """Calls an operation of the service, and returns its result: of `run` that is the result of the run."""

    @workflow.run
    async def run(self, operation: str, given: dict[str, Any]) -> Any:
        """Call the operation, and wait for its end, however long that takes."""
        llm_do = workflow.create_nexus_client(service="llm-do", endpoint="llm-do")
        return await llm_do.execute_operation(operation, given)


async def main(namespace: str, queue: str) -> None:
    """Work for the team until Ctrl-C."""
    address = os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233")
    client = await Client.connect(address, namespace=namespace)
    await Worker(client, task_queue=queue, workflows=[CallWorker]).run()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python nexus_caller.py NAMESPACE TASK_QUEUE")
    asyncio.run(main(*sys.argv[1:]))
