"""What takes long once a process is done before it polls, and not within the time of a workflow's first task."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import asyncio, sys
from contextlib import suppress
from pathlib import Path
from pydantic import TypeAdapter
from pydantic_ai.durable_exec.temporal import PydanticAIPayloadConverter
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from temporalio.client import Client
from llm_do_temporal.service import build_worker

async def main():
    converter = PydanticAIPayloadConverter()
    payloads = converter.to_payloads([ModelResponse(parts=[])])
    assert not ModelMessagesTypeAdapter.pydantic_complete
    with suppress(RuntimeError):  # of the SDK, whose worker wants a server
        build_worker(await Client.connect("127.0.0.1:1", lazy=True), Path(sys.argv[1]))
    assert ModelMessagesTypeAdapter.pydantic_complete
    built, build = [], TypeAdapter.__init__
    TypeAdapter.__init__ = lambda self, *given, **more: (built.append(given), build(self, *given, **more))[1]
    converter.from_payloads(payloads, [ModelResponse])
    assert built == []

asyncio.run(main())
"""


def test_messages_of_models_are_read_from_the_first_task_on(tmp_path: Path) -> None:
    """In a process of its own: in this one they have been read before."""
    (tmp_path / "workshop.yaml").write_text("name: adapters\n")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
