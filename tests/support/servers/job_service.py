"""A worker service for a process of its own, so that it can be killed.

Its model `test:job` runs the command `sh job.sh` and then says what it was told of it; so does `test:asker` with the
function `ask`. `test:sage` knows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
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


def serve(queue: str, folder: Path, variables: Mapping[str, str]) -> None:
    """Serve a workshop at a task queue until killed; `variables` say which server and namespace."""
    os.environ.update(variables)
    asyncio.run(_serve(queue, folder))


async def _serve(queue: str, folder: Path) -> None:
    register_model("job", scripted(call("shell", command="sh job.sh", timeout=300), told))
    register_model("asker", scripted(call("ask", question="The question?"), told))
    register_model("sage", scripted("Forty-two."))
    address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    await build_worker(client, folder, ServiceSettings(task_queue=queue)).run()
