"""A worker service in a process of its own, so that it can be killed: `python -m tests.support.servers.job_service`.

Arguments: the task queue, the workshop's folder; the server is that of TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE. Its
model `test:job` runs the command `sh job.sh` and then says what it was told of it; so does `test:asker` with the
function `ask`. `test:sage` knows.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ToolReturnPart
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.testing import call, register_model, scripted


def told(messages: list[ModelMessage]) -> str:
    """The result of the last tool call, as the model reads it."""
    results = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return results[-1].model_response_str()


async def serve(queue: str, folder: str) -> None:
    """Serve until killed."""
    register_model("job", scripted(call("shell", command="sh job.sh", timeout=300), told))
    register_model("asker", scripted(call("ask", question="The question?"), told))
    register_model("sage", scripted("Forty-two."))
    address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    await build_worker(client, Path(folder), ServiceSettings(task_queue=queue)).run()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
