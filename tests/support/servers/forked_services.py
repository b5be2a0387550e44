"""Worker services in processes of their own, which load their code once.

    python -m tests.support.servers.forked_services COUNT QUEUE WORKSHOP

The server is that of TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE. To end them, kill the whole process group.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.service.build import ServiceSettings, build_worker


async def serve(queue: str, folder: str) -> None:
    """Serve until killed."""
    address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    await build_worker(client, Path(folder), ServiceSettings(task_queue=queue)).run()


if __name__ == "__main__":
    # Nothing has threads yet: the SDK begins its own when it connects.
    for _ in range(int(sys.argv[1]) - 1):
        if os.fork() == 0:
            break
    asyncio.run(serve(*sys.argv[2:4]))
