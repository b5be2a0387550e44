"""The development server as the product starts it, with its Temporal UI, and all ports at which it listens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from llm_do_temporal.client.embedded.host import await_server, server_command, spawn
from llm_do_temporal.client.embedded.server import unlikely_address
from tests.support.ports import unused_port

HELD = "waits-for-ada"
"""A workflow that is open, and that nobody works on: what is sent to it stays where it is seen."""
QUEUE = "nobodys"


@dataclass(frozen=True)
class Embedded:
    """A server that runs."""

    client: Client
    address: str
    hidden_ui: str
    places: tuple[tuple[str, int], ...]
    """Every address and port at which the process listens."""

    async def what_happened(self) -> list[str]:
        """What was started besides the one workflow, and what was sent to that one. Nothing: an empty list."""
        started = [one.id async for one in self.client.list_workflows() if one.id != HELD]
        history = await self.client.get_workflow_handle(HELD).fetch_history()
        quiet = (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
        sent = [EventType.Name(event.event_type) for event in history.events if event.event_type not in quiet]
        return started + sent


@asynccontextmanager
async def embedded(folder: Path) -> AsyncGenerator[Embedded]:
    """A server in this folder, with one open workflow."""
    address, hidden = f"127.0.0.1:{unused_port()}", unlikely_address()
    process = spawn(server_command(address, folder / "temporal.db", hidden), folder / "server.log")
    try:
        client = await await_server(process, address, folder / "temporal.db", folder / "server.log")
        await client.start_workflow("Run", id=HELD, task_queue=QUEUE)
        listening = [
            (one.laddr.ip, one.laddr.port)
            for one in psutil.Process(process.pid).net_connections("tcp")
            if one.status == psutil.CONN_LISTEN
        ]
        yield Embedded(client, address, hidden, tuple(sorted(listening)))
    finally:
        process.kill()
        process.wait()


def starting(workflow: str) -> tuple[str, bytes]:
    """Path and body of a request to the HTTP API that starts a workflow."""
    body = {"workflowType": {"name": "Run"}, "taskQueue": {"name": QUEUE}, "requestId": workflow}
    return f"/api/v1/namespaces/default/workflows/{workflow}", json.dumps(body).encode()


def approving() -> tuple[str, bytes]:
    """Path and body of a request to the HTTP API that sends a signal."""
    return f"/api/v1/namespaces/default/workflows/{HELD}/signal/decide", b'{"input": []}'
