"""A process beside the worker service that sends heartbeats while the service cannot: something blocks its event loop
or its interpreter.

Run as a script. It reads messages of its parent from standard input, one pickle each: how to connect, then which
activities begin and end. Each message shows that the event loop of the parent goes on. The process sends nothing while
messages come, while the parent is stopped, and after LONGEST seconds of silence. It ends with the parent, at once.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.workflowservice.v1 import RecordActivityTaskHeartbeatRequest
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

SILENCE = 1.0
"""Seconds without a message after which the parent counts as blocked."""
LONGEST = 600.0
"""Seconds of silence after which the parent counts as lost."""
BEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.25
_RPC_TIME = timedelta(seconds=3)
_AT_ONCE = 20
_STATE_FIELD = 0


@dataclass
class Parent:
    """Messages of the parent so far."""

    process: int
    connection: tuple[str, dict[str, Any]] | None = None
    """The namespace and the arguments for the connection."""
    activities: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict[bytes, tuple[bytes, ...]])
    """Details of the last heartbeat, as encoded payloads, by the task token of the activity."""
    heard: float = field(default_factory=time.monotonic)

    def listen(self) -> None:
        """Read until the parent ends, and end this process then."""
        try:
            while True:
                self._take(pickle.load(sys.stdin.buffer))  # noqa: S301 - the parent is the worker service
        finally:
            os._exit(0)

    def _take(self, message: tuple[Any, ...]) -> None:
        self.heard = time.monotonic()
        match message:
            case ("connect", namespace, arguments):
                self.connection = namespace, arguments
            case ("begin", token, details):
                self.activities[token] = details
            case ("end", token):
                self.activities.pop(token, None)
            case _:
                pass

    def is_blocked(self) -> bool:
        """Return whether the parent lives and computes, and its event loop does not go on."""
        return SILENCE < time.monotonic() - self.heard < LONGEST and not is_stopped(self.process)


def is_stopped(process: int) -> bool:
    """Return whether the process is stopped, dead, or not known."""
    if sys.platform == "linux":
        try:
            told = Path(f"/proc/{process}/stat").read_text(errors="replace")
        except OSError:
            return True
        state = told.rpartition(")")[2].split()[_STATE_FIELD]
    else:
        state = subprocess.run(
            ["/bin/ps", "-o", "state=", "-p", str(process)], capture_output=True, text=True, check=False
        ).stdout.strip()
    return state[:1] in ("", "T", "t", "Z", "X")


async def beat(parent: Parent) -> None:
    """Send heartbeats whenever the parent is blocked, until this process ends."""
    while parent.connection is None:  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(_LOOK_SECONDS)
    namespace, arguments = parent.connection
    client = await ServiceClient.connect(ConnectConfig(**arguments, lazy=True))
    line = asyncio.Semaphore(_AT_ONCE)

    async def send(token: bytes, details: tuple[bytes, ...]) -> None:
        request = RecordActivityTaskHeartbeatRequest(task_token=token, namespace=namespace)
        if details:
            request.details.CopyFrom(Payloads(payloads=[Payload.FromString(one) for one in details]))
        async with line:
            try:
                await client.workflow_service.record_activity_task_heartbeat(request, timeout=_RPC_TIME)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    parent.activities.pop(token, None)
            except RuntimeError:
                pass  # no connection: the next heartbeat tries again

    sent = 0.0
    while True:
        if os.getppid() != parent.process:
            os._exit(0)
        if parent.activities and time.monotonic() - sent >= BEAT_SECONDS and parent.is_blocked():
            sent = time.monotonic()
            await asyncio.gather(*(send(*one) for one in list(parent.activities.items())))
        await asyncio.sleep(_LOOK_SECONDS)


def main() -> None:
    """Serve the parent until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent still finishes what is under way
    parent = Parent(os.getppid())
    threading.Thread(target=parent.listen, daemon=True).start()
    asyncio.run(beat(parent))


if __name__ == "__main__":
    main()
