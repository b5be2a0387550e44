"""A process beside the worker service that sends heartbeats while the service cannot: something blocks its event loop
or its interpreter.

Run as a script. It reads messages of its parent from standard input, one pickle each: how to connect, then which
activities begin and end. Each message shows that the event loop of the parent goes on. The process sends nothing while
messages come, while the parent is stopped, and after LONGEST seconds of silence. It ends with the parent, at once.
It loads the SDK, most of its memory, when the first activity begins that may block: on a busy machine that takes
longer than the server waits for a heartbeat.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from typing import Any

SILENCE = 1.0
"""Seconds without a message after which the parent counts as blocked."""
LONGEST = 600.0
"""Seconds of silence after which the parent counts as lost."""
BEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.25
_RPC_SECONDS = 3
_AT_ONCE = 20
_STATE_FIELD = 0


class Parent:
    """Messages of the parent so far."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.connection: tuple[str, bytes] | None = None
        """The namespace, and the pickled arguments for the connection, whose classes are the SDK's."""
        self.activities: dict[bytes, tuple[bytes, ...]] = {}
        """Details of the last heartbeat, as encoded payloads, by the task token of the activity."""
        self.may_block = False
        """Whether an activity has begun that runs other people's code."""
        self._heard = time.monotonic()

    def listen(self) -> None:
        """Read until the parent ends, and end this process then."""
        try:
            while True:
                self._take(pickle.load(sys.stdin.buffer))  # noqa: S301 - the parent is the worker service
        finally:
            os._exit(0)

    def _take(self, message: tuple[Any, ...]) -> None:
        self._heard = time.monotonic()
        match message:
            case ("connect", namespace, arguments):
                self.connection = namespace, arguments
            case ("begin", token, details):
                self.activities[token] = details
            case ("may block",):
                self.may_block = True
            case ("end", token):
                self.activities.pop(token, None)
            case _:
                pass

    def needs_heartbeats(self) -> bool:
        """Return whether activities go on and the parent is blocked. End this process where the parent has ended."""
        if os.getppid() != self.process:
            os._exit(0)
        return self.connection is not None and bool(self.activities) and self._is_blocked()

    def _is_blocked(self) -> bool:
        """Return whether the parent lives and computes, and its event loop does not go on."""
        return SILENCE < time.monotonic() - self._heard < LONGEST and not is_stopped(self.process)


def is_stopped(process: int) -> bool:
    """Return whether the process is stopped, dead, or not known."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{process}/stat", errors="replace") as file:  # noqa: PTH123 - pathlib is not loaded for this
                told = file.read()
        except OSError:
            return True
        state = told.rpartition(")")[2].split()[_STATE_FIELD]
    else:
        import subprocess

        state = subprocess.run(
            ["/bin/ps", "-o", "state=", "-p", str(process)], capture_output=True, text=True, check=False
        ).stdout.strip()
    return state[:1] in ("", "T", "t", "Z", "X")


async def beat(parent: Parent) -> None:
    """Load the SDK, and send heartbeats whenever the parent needs them, until this process ends."""
    import asyncio
    from datetime import timedelta

    from temporalio.api.common.v1 import Payload, Payloads
    from temporalio.api.workflowservice.v1 import RecordActivityTaskHeartbeatRequest
    from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

    assert parent.connection is not None
    namespace, arguments = parent.connection
    client = await ServiceClient.connect(ConnectConfig(**pickle.loads(arguments), lazy=True))  # noqa: S301
    line = asyncio.Semaphore(_AT_ONCE)

    async def send(token: bytes, details: tuple[bytes, ...]) -> None:
        request = RecordActivityTaskHeartbeatRequest(task_token=token, namespace=namespace)
        if details:
            request.details.CopyFrom(Payloads(payloads=[Payload.FromString(one) for one in details]))
        async with line:
            try:
                await client.workflow_service.record_activity_task_heartbeat(
                    request, timeout=timedelta(seconds=_RPC_SECONDS)
                )
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    parent.activities.pop(token, None)
            except RuntimeError:
                pass  # no connection: the next heartbeat tries again

    sent = 0.0
    while True:
        if time.monotonic() - sent >= BEAT_SECONDS and parent.needs_heartbeats():
            sent = time.monotonic()
            await asyncio.gather(*(send(*one) for one in list(parent.activities.items())))
        await asyncio.sleep(_LOOK_SECONDS)


def main() -> None:
    """Serve the parent until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent still finishes what is under way
    parent = Parent(os.getppid())
    threading.Thread(target=parent.listen, daemon=True).start()
    while not parent.may_block and not parent.needs_heartbeats():
        time.sleep(_LOOK_SECONDS)
    import asyncio

    asyncio.run(beat(parent))


if __name__ == "__main__":
    main()
