"""The Nexus door: a workflow of another namespace calls, on a worker process that is the example of the docs."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from tests.support.doors.scenario import DECK, PROMPT, Door, Ended
from tests.support.extensions.nexus.nexus_place import make_endpoint, other_namespace
from tests.support.people.desk import Desk

EXAMPLE = Path(__file__).parents[4] / "docs/examples/nexus_caller.py"
ENDPOINT = "llm-do"
QUEUE = "their-queue"
NAME = "monday"
_CALL = "CallWorker"


class NexusDoor(Door):
    """Another team's namespace, and its worker process, which is the one that dies."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        desk.environment["LLM_DO_NEXUS_ENDPOINTS"] = ENDPOINT
        self.address = desk.environment["TEMPORAL_ADDRESS"]
        self.namespace = asyncio.run(self._prepare())

    def open(self) -> None:
        """Begin the worker process of the other team."""
        command = [sys.executable, str(EXAMPLE), self.namespace, QUEUE]
        self.process = subprocess.Popen(command, env=self.desk.environment, text=True, start_new_session=True)

    def close(self) -> None:
        self.die()

    def start(self) -> str:
        """Start their workflow, which starts the run."""
        asyncio.run(self._begin())
        return f"nexus-{ENDPOINT}:{NAME}"

    def asked(self, run: str) -> str:
        """Ask through the door until the run wants to know something."""
        return asyncio.run(self._asked())

    def result(self, run: str) -> Ended:
        """Wait for the end of their workflow, which has the result of the run."""
        done = asyncio.run(self._result())
        return Ended("completed", done["output"], requests=done["usage"]["requests"])

    async def _prepare(self) -> str:
        ours = await Client.connect(self.address, namespace=self.desk.environment.get("TEMPORAL_NAMESPACE", "default"))
        await make_endpoint(ours, ENDPOINT, "llm-do")
        return (await other_namespace(ours)).namespace

    async def _client(self) -> Client:
        return await Client.connect(self.address, namespace=self.namespace)

    async def _call(self, identity: str, operation: str, given: dict[str, Any]) -> WorkflowHandle[Any, Any]:
        client = await self._client()
        return await client.start_workflow(_CALL, args=[operation, given], id=identity, task_queue=QUEUE)

    async def _begin(self) -> None:
        file = {"name": "deck.txt", "content": base64.b64encode(DECK).decode()}
        given = {"worker": "deck_keeper", "prompt": PROMPT, "attachments": [file], "run": NAME}
        await self._call("calls", "run", given)

    async def _asked(self) -> str:
        number = 0
        while True:
            number += 1
            try:
                asked = await (await self._call(f"asks-{number}", "pending", {"run": NAME})).result()
            except WorkflowFailureError:
                continue  # the run has not begun
            if asked:
                return asked[0]["id"]

    async def _result(self) -> dict[str, Any]:
        return await (await self._client()).get_workflow_handle("calls").result()


DOORS = (NexusDoor,)
