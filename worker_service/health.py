"""`/healthz` and `/readyz`: whether the process lives, and whether it takes work.

Served from before there is a connection, in a thread of its own, so that a busy event loop is noticed rather than
waited for.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.queues import Polled

ANSWER_SECONDS = 3
"""Time that the server, and this process, may take to answer."""
Check = Callable[[], Coroutine[Any, Any, str | None]]
"""Function that returns a fault in words, or None."""


@dataclass
class Progress:
    """State of the process, from start to stop."""

    client: Client | None = None
    """Connected client; None before there is one."""
    polled: Sequence[Polled] = ()
    """Task queues that the process polls; empty before it does."""
    stopping: bool = False

    async def alive(self) -> str | None:
        """Return None: a process that can answer lives."""
        return None

    async def ready(self) -> str | None:
        """Return the reason why the process takes no work; None if it does."""
        if self.stopping:
            return "stopping"
        if self.client is None:
            return "not connected to the Temporal server yet"
        if not self.polled:
            return "connected to the Temporal server, and not polling yet"
        return await polls(self.client, self.polled)


async def polls(client: Client, polled: Sequence[Polled]) -> str | None:
    """Return None if the server answers and knows this process as a poller of its queues; else the fault."""
    activities, workflows = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    asked = [(queue.task_queue, workflows) for queue in polled if "workflows" in queue.roles]
    for task_queue, kind in (*asked, *((queue.task_queue, activities) for queue in polled)):
        request = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=task_queue), task_queue_type=kind
        )
        patience = timedelta(seconds=ANSWER_SECONDS)
        try:
            found = await client.workflow_service.describe_task_queue(request, timeout=patience)
        except RPCError as error:
            return f"the Temporal server does not answer: {error.status.name}"
        if all(poller.identity != client.identity for poller in found.pollers):
            return f"task queue '{task_queue}' is not polled yet"
    return None


@contextmanager
def health_server(address: str, port: int, progress: Progress) -> Generator[None]:
    """Serve health while the block runs. Call it on the event loop of the client. Raises UsageError for the port."""
    loop = asyncio.get_running_loop()
    checks: dict[str, Check] = {"/healthz": progress.alive, "/readyz": progress.ready}

    class Answers(BaseHTTPRequestHandler):
        timeout = 2 * ANSWER_SECONDS

        def do_GET(self) -> None:
            check = checks.get(self.path.partition("?")[0])
            wrong = "there is /healthz and /readyz" if check is None else _answer(check, loop)
            self.send_response(404 if check is None else 200 if wrong is None else 503)
            body = f"{wrong or 'ok'}\n".encode()
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing: these requests come every few seconds."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        daemon_threads = True

    try:
        server = Server((address, port), Answers)
    except OSError as error:
        raise UsageError(f"health cannot be served at {address}:{port}: {error.strerror}") from error
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _answer(check: Check, loop: asyncio.AbstractEventLoop) -> str | None:
    answer = asyncio.run_coroutine_threadsafe(check(), loop)
    try:
        return answer.result(2 * ANSWER_SECONDS)
    except TimeoutError:
        answer.cancel()
        return "this process does not answer itself"
