"""A worker service in a process of its own, with a toolset that blocks it and runs beside the one that does.

Its models: `test:blocker` calls `block` once; `test:neighbour` calls `wait` once; `test:writer` takes its time for a
turn, and notes in `asked.txt` that it was asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.testing import call, register_model, scripted
from tests.support.servers.job_service import told

TOOLSET = '''
import asyncio
import math
import re
import time
from pathlib import Path

from pydantic_ai.toolsets import FunctionToolset

HERE = Path(__file__).parent


def note(name):
    with (HERE / name).open("a") as file:
        file.write("x")


def seconds(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def hold(how):
    """Block the thread, or the interpreter with all its threads, for longer than anybody waits for heartbeats."""
    if how == "thread":
        time.sleep(12)
    elif how == "loop":
        number = 5_000_000
        sum(range(int(number * 12 / seconds(lambda: sum(range(number))))))
    else:
        letters = 18
        doubled = math.ceil(math.log2(12 / seconds(lambda: re.match("(a+)+b", "a" * letters))))
        re.match("(a+)+b", "a" * (letters + doubled))


class Blocking(FunctionToolset):
    def __init__(self):
        super().__init__(id="blocking")
        self.add_function(self.block)
        self.add_function(self.wait)

    async def block(self, how: str) -> str:
        note("blocked.txt")
        while not all((HERE / name).exists() for name in ("waited.txt", "asked.txt")):
            await asyncio.sleep(0.02)
        hold(how)
        (HERE / "over").touch()
        return "It is over."

    async def wait(self) -> str:
        note("waited.txt")
        while not (HERE / "over").exists():
            await asyncio.sleep(0.02)
        return "It was long."
'''


def serve(queue: str, folder: Path, variables: Mapping[str, str], how: str) -> None:
    """Serve a workshop at a task queue until killed; `variables` say which server and namespace."""
    os.environ.update(variables)
    asyncio.run(_serve(queue, folder, how))


async def _serve(queue: str, folder: Path, how: str) -> None:
    async def write(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        with (folder / "asked.txt").open("a") as asked:
            asked.write("x")
        while not (folder / "over").exists():  # noqa: ASYNC110 - the blocked thread sets no event
            await asyncio.sleep(0.02)
        return ModelResponse(parts=[TextPart("Written.")])

    register_model("blocker", scripted(call("block", how=how), told))
    register_model("neighbour", scripted(call("wait"), told))
    register_model("writer", FunctionModel(write))
    address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    await build_worker(client, folder, ServiceSettings(task_queue=queue)).run()
