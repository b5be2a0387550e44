"""Times in which the event loop of the worker service does not go on, and what keeps activities alive meanwhile.

Other people's code may block the loop, or the interpreter with all its threads. A process beside the service, see
`beater`, then sends the heartbeats. The SDK gives activities up that have not sent any for 9 s: it would cancel them,
and drop their results. Both are prevented here.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.activity_task import ActivityCancelReason, Cancel
from temporalio.client import Client
from temporalio.service import ConnectConfig, ServiceClient
from temporalio.worker import Worker

TICK_SECONDS = 0.4
BLOCKED_SECONDS = 3.0
"""Time without a tick from which the SDK may have given activities up; it does so later than the server."""
_REMEMBERED_SECONDS = 30.0
"""Time after its end in which a block explains that the SDK gives an activity up."""
_BEATER = Path(__file__).with_name("beater.py")
_NOT_SENT = ("runtime", "lazy", "payload_limits")
_PIPE_BYTES = 1 << 20
_MAY_BLOCK = ("may block",)
_CALM_SECONDS = 5.0
"""Seconds after the first activity in which the process is started only for other people's code: a service that has
just begun has work to take up, and needs its processors."""
_PAUSE_SECONDS = 5.0
"""Seconds between two starts of the process, where it ends by itself."""


class Blocks:
    """Blocks of this process, and the activities of one connection that have to live through them."""

    def __init__(self, client: Client) -> None:
        """`client` is the worker's."""
        self._connection = client.namespace, pickle.dumps(_arguments(client.service_client.config))
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._begun = 0.0
        self._calm_until: float | None = None
        self._may_block = False
        """Whether an activity has begun that runs other people's code."""
        self._activities: dict[bytes, tuple[bytes, ...]] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._ticked = time.monotonic()
        self._last_block: tuple[float, float] | None = None
        """Begin and end, by the monotonic clock, of the latest block."""

    @contextmanager
    def covering(self, token: bytes, details: Sequence[Payload] = (), *, may_block: bool = True) -> Generator[None]:
        """Have heartbeats of this activity sent during blocks, while the context is open.

        One that may block, as it runs other people's code, has the process started and ready at once."""
        self._note_block()
        if self._calm_until is None:
            self._calm_until = time.monotonic() + _CALM_SECONDS
        if may_block and not self._may_block:
            self._may_block = True
            self._send(_MAY_BLOCK)
        ticking = self._ticking
        if ticking is None or ticking.done() or ticking.get_loop() is not asyncio.get_running_loop():
            self._ticking = asyncio.create_task(self._tick())
        self.tell(token, details)
        try:
            yield
        finally:
            self._activities.pop(token, None)
            self._send(("end", token))

    def tell(self, token: bytes, details: Sequence[Payload]) -> None:
        """Have these details repeated by heartbeats during blocks: without them the server would forget them."""
        self._activities[token] = encoded = tuple(one.SerializeToString() for one in details)
        self._send(("begin", token, encoded))

    def was_blocked(self, since: float) -> bool:
        """Return whether there was a block after this time of the monotonic clock."""
        self._note_block()
        return self._last_block is not None and self._last_block[1] >= since

    def has_just_been_blocked(self) -> bool:
        """Return whether there was a block a short time ago."""
        return self.was_blocked(time.monotonic() - _REMEMBERED_SECONDS)

    async def _tick(self) -> None:
        self._ticked = time.monotonic()
        while self._activities:
            self._send(("tick",))
            await asyncio.sleep(TICK_SECONDS)
            self._note_block()
            self._ticked = time.monotonic()

    def _note_block(self) -> None:
        now = time.monotonic()
        if self._ticking is not None and not self._ticking.done() and now - self._ticked > BLOCKED_SECONDS:
            self._last_block = self._ticked, now

    def _send(self, message: tuple[Any, ...]) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._begin()
            elif not self._wrote(message):
                self._end()
                self._begin()

    def _begin(self) -> None:
        """Start the process and send it all that it must know. One that cannot be started is tried again later."""
        now = time.monotonic()
        if not self._activities or (self._owner == os.getpid() and now - self._begun < _PAUSE_SECONDS):
            return
        if not self._may_block and now < (self._calm_until or 0.0):
            return
        self._owner, self._begun = os.getpid(), now
        with suppress(OSError):
            self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_BEATER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        if sys.platform == "linux":
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(descriptor, False)
        self._wrote(("connect", *self._connection))
        if self._may_block:
            self._wrote(_MAY_BLOCK)
        for token, details in list(self._activities.items()):
            self._wrote(("begin", token, details))

    def _wrote(self, message: tuple[Any, ...]) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        data = pickle.dumps(message)
        try:
            return os.write(self._process.stdin.fileno(), data) == len(data)
        except OSError:
            return False

    def _end(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process = None


_by_connection: WeakKeyDictionary[ServiceClient, Blocks] = WeakKeyDictionary()


def blocks_of(client: Client) -> Blocks:
    """Return what belongs to the client's connection: one process serves all workers that share it."""
    return _by_connection.setdefault(client.service_client, Blocks(client))


def keep_activities(workers: Sequence[Worker], blocks: Blocks) -> None:
    """Let workers not cancel activities that the SDK gives up after a block: the server still has them."""
    for worker in workers:
        activities: Any = worker._activity_worker  # pyright: ignore[reportPrivateUsage]
        if activities is not None:
            activities._handle_cancel_activity_task = _unless_blocked(
                activities._handle_cancel_activity_task,
                blocks,
            )


def _unless_blocked(cancel: Callable[[bytes, Cancel], None], blocks: Blocks) -> Callable[[bytes, Cancel], None]:
    def cancel_unless_blocked(token: bytes, asked: Cancel) -> None:
        if asked.reason != ActivityCancelReason.TIMED_OUT or not blocks.has_just_been_blocked():
            cancel(token, asked)

    return cancel_unless_blocked


def _arguments(config: ConnectConfig) -> dict[str, Any]:
    return {one.name: getattr(config, one.name) for one in fields(config) if one.name not in _NOT_SENT}
