"""Interceptors of every activity: a span for each attempt, and heartbeats.

Heartbeats show within seconds that a worker service was killed. They go on while a large result waits for the blob
store: otherwise the server would have the activity done again.

Other people's code may block the loop, or the interpreter with all its threads. A process beside the service, see
`beater`, then sends the heartbeats. The SDK gives activities up that have not sent any for 9 s: it would cancel them,
and drop their results. Both are prevented here.
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.activity_task import ActivityCancelReason, Cancel
from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError
from temporalio.service import ConnectConfig, RPCError, ServiceClient
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
)

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.callers import TimeLimit, limited_to
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.extension import IN_SERVICE, activity_refs, needs
from llm_do_temporal.messages.activities import ALL_ACTIVITIES, RECORD_AT_DESK, REQUEST_MODEL
from llm_do_temporal.messages.base import EXTENSION_HEADER, NOT_BEGUN, TIME_IS_UP
from llm_do_temporal.messages.conversation import BatchedTurn
from llm_do_temporal.messages.sizes import KEPT_FROM_BYTES
from llm_do_temporal.storage.external_storage import keep_ahead
from llm_do_temporal.telemetry.spans import span

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
            activities._handle_cancel_activity_task = _unless_blocked(activities._handle_cancel_activity_task, blocks)


def _unless_blocked(cancel: Callable[[bytes, Cancel], None], blocks: Blocks) -> Callable[[bytes, Cancel], None]:
    def cancel_unless_blocked(token: bytes, asked: Cancel) -> None:
        if asked.reason != ActivityCancelReason.TIMED_OUT or not blocks.was_blocked(
            time.monotonic() - _REMEMBERED_SECONDS
        ):
            cancel(token, asked)

    return cancel_unless_blocked


def _arguments(config: ConnectConfig) -> dict[str, Any]:
    return {one.name: getattr(config, one.name) for one in fields(config) if one.name not in _NOT_SENT}


MODEL_REQUEST = "model_request"
"""Name of the spans of a turn's attempts, in place of their activity's, which is technical."""


class SpanInterceptor(Interceptor):
    """Gives activities their spans, below that of what scheduled them; a record at the desk is no work."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Spanned(next)


class _Spanned(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        info = activity.info()
        if info.activity_type == RECORD_AT_DESK.name:
            return await self.next.execute_activity(input)
        name = MODEL_REQUEST if info.activity_type == REQUEST_MODEL.name else info.activity_type
        with span(name, {"llm_do.activity": info.activity_type, "llm_do.attempt": info.attempt}):
            return await self.next.execute_activity(input)


BEAT_SECONDS = 1.0
_BEATS = ThreadPoolExecutor(4, thread_name_prefix="heartbeat")
"""Threads of their own: a blob store that is down may keep all others waiting for minutes."""
_LONGEST_WAIT = 10.0
"""Seconds between two tries to keep a large result."""


@cache
def _authors_code() -> frozenset[str]:
    """Return the names of activities that run other people's code in this process."""
    refs = (*ALL_ACTIVITIES, *activity_refs())
    return frozenset(ref.name for ref in refs if ref.runs_authors_code)


LATE = timedelta(seconds=1)
"""Delay from which an activity began late: a process that is not busy begins within milliseconds."""


class Promptness:
    """Tells whether an activity comes late, by two clocks that may differ: the server's and this machine's.

    The smallest difference that was seen so far stands for an activity that came at once. Before there is any, and
    where this machine's clock is ahead by more than LATE, every activity counts as late.
    """

    def __init__(self) -> None:
        self._smallest: timedelta | None = None

    def is_late(self, started: datetime) -> bool:
        """Return whether an activity that the server gave away at this time comes late."""
        passed = datetime.now(UTC) - started
        known, self._smallest = self._smallest, passed if self._smallest is None else min(passed, self._smallest)
        return known is None or passed - min(timedelta(0), self._smallest) > LATE


def check_extensions(headers: Mapping[str, Payload]) -> None:
    """Raise ApplicationError where one of the headers is for an extension that is not installed here."""
    for header in headers:
        name = header.removeprefix(EXTENSION_HEADER)
        if name != header:
            with user_errors():
                needs(name, "this activity", where=IN_SERVICE)


class HeartbeatInterceptor(Interceptor):
    """Beats once a second while an activity with a heartbeat timeout runs, sync or async.

    An activity that begins late tells the server first. It does not begin where the server has given it up or cancelled
    it meanwhile, or does not answer.
    """

    def __init__(self, client: Client, blocks: Blocks | None = None) -> None:
        """`client` is the worker's; `blocks` belong to its connection. None: no heartbeats are sent during blocks."""
        self._client = client
        self._blocks = blocks
        self._promptness = Promptness()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Beating(next, self._client, self._promptness, self._blocks)


class _Beating(ActivityInboundInterceptor):
    """Keeps a large result while the activity can still beat, and returns the reference to it."""

    def __init__(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002
        client: Client,
        promptness: Promptness,
        blocks: Blocks | None,
    ) -> None:
        super().__init__(next)
        self._client = client
        self._promptness = promptness
        self._blocks = blocks

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """See ActivityInboundInterceptor."""
        self._outbound = _Repeating(outbound, _kept(outbound.info()), self._blocks and self._tell_beside)
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        check_extensions(input.headers)
        info = activity.info()
        if info.heartbeat_timeout is None:
            return await self.next.execute_activity(input)
        if self._blocks is None:
            return await self._executed(input, info)
        since = time.monotonic()
        may_block = info.activity_type in _authors_code()
        with self._blocks.covering(info.task_token, await self._encoded(_kept(info)), may_block=may_block):
            try:
                result = await self._executed(input, info)
            except BaseException as error:
                if self._blocks.was_blocked(since) and await self._has_failed(info, error):
                    activity.raise_complete_async()
                raise
            if self._blocks.was_blocked(since) and await self._has_completed(info, result):
                activity.raise_complete_async()
            return result

    async def _has_completed(self, info: activity.Info, result: Any) -> bool:
        """Give the result to the server, as the SDK may have dropped the activity; return whether that succeeded."""
        try:
            await self._client.get_async_activity_handle(task_token=info.task_token).complete(result)
        except RPCError:
            return False
        return True

    async def _has_failed(self, info: activity.Info, error: BaseException) -> bool:
        """Tell the server how the activity failed, and return whether that succeeded."""
        attempt = self._client.get_async_activity_handle(task_token=info.task_token)
        try:
            if isinstance(error, asyncio.CancelledError | CancelledError) and activity.is_cancelled():
                await attempt.report_cancellation()
            elif isinstance(error, Exception):
                await attempt.fail(error, last_heartbeat_details=self._outbound.details)
            else:
                return False
        except RPCError:
            return False
        return True

    def _tell_beside(self, details: Sequence[Any]) -> None:
        """Have the process beside repeat what must not be forgotten. The text of an answer may be."""
        if details and isinstance(details[0], BatchedTurn):
            token = activity.info().task_token

            async def tell() -> None:
                encoded = await self._encoded(details)
                if self._blocks is not None:
                    self._blocks.tell(token, encoded)

            self._telling = asyncio.create_task(tell())

    async def _encoded(self, details: Sequence[Any]) -> Sequence[Payload]:
        return await self._client.data_converter.encode(details) if details else ()

    async def _executed(self, input: ExecuteActivityInput, info: activity.Info) -> Any:  # noqa: A002
        result = await self._execute(input, info)
        payload = activity.payload_converter().to_payloads([result])[0]
        if payload.ByteSize() < KEPT_FROM_BYTES:
            return result
        self._outbound.has_begun = True
        with _beating(input):
            reference = await self._keep(payload)
        return result if reference is None else reference

    async def _execute(self, input: ExecuteActivityInput, info: activity.Info) -> Any:  # noqa: A002
        if self._promptness.is_late(info.started_time):
            await self._check_wanted(info)
        # The agent's own activities beat by themselves, with details that must not be overwritten.
        if info.activity_type.startswith("agent__"):
            return await self.next.execute_activity(input)
        # The attempt fails when its own time is up: its thread cannot be stopped.
        seconds = getattr(input.args[0], "limit_seconds", None) if input.args else None
        with limited_to(seconds) as limit, _beating(input):
            watch = asyncio.create_task(self._fail_when_over(limit, info)) if seconds is not None else None
            try:
                return await self.next.execute_activity(input)
            finally:
                if watch is not None:
                    watch.cancel()

    async def _fail_when_over(self, limit: TimeLimit, info: activity.Info) -> None:
        while not limit.is_over:  # noqa: ASYNC110 - time sets no event
            await asyncio.sleep(BEAT_SECONDS)
        attempt = self._client.get_async_activity_handle(task_token=info.task_token)
        # From here on the server refuses heartbeats, so the SDK cancels what still runs.
        with suppress(RPCError):
            await attempt.fail(ApplicationError("the time was up", type=TIME_IS_UP))

    async def _check_wanted(self, info: activity.Info) -> None:
        """Raise ApplicationError unless the server still wants this attempt: else to begin could be to do it twice."""
        attempt = self._client.get_async_activity_handle(task_token=info.task_token)
        try:
            await attempt.heartbeat(*_kept(info), rpc_timeout=info.heartbeat_timeout)
        except (AsyncActivityCancelledError, RPCError) as error:
            raise ApplicationError(
                "the worker service could not begin in time", type=NOT_BEGUN, category=ApplicationErrorCategory.BENIGN
            ) from error

    async def _keep(self, payload: Payload) -> RawValue | None:
        wait = BEAT_SECONDS
        while True:
            try:
                return await keep_ahead(self._client.data_converter, payload)
            except BlobsUnreachable:
                await asyncio.sleep(wait)  # a store that refuses access says so at once
                wait = min(2 * wait, _LONGEST_WAIT)


def _kept(info: activity.Info) -> tuple[Any, ...]:
    """Return what earlier attempts have told for this one, which must not be forgotten before it is read."""
    try:
        return tuple(BatchedTurn.model_validate(told) for told in info.heartbeat_details)
    except ValidationError:
        return ()


@contextmanager
def _beating(call: ExecuteActivityInput) -> Generator[None]:
    beats = asyncio.create_task(_beat(sync=not inspect.iscoroutinefunction(call.fn)))
    try:
        yield
    finally:
        beats.cancel()


class _Repeating(ActivityOutboundInterceptor):
    """Repeats the details of the last heartbeat: one without any would make the server forget them.

    The first of those that carry nothing is not sent: it comes as the activity begins, which the server knows, and
    each is a write in its database. Most activities end before the second.
    """

    def __init__(
        self,
        next: ActivityOutboundInterceptor,  # noqa: A002
        details: Sequence[Any] = (),
        told: Callable[[Sequence[Any]], None] | None = None,
    ) -> None:
        """`told` is called with each new details."""
        super().__init__(next)
        self._told = told
        self.has_begun = False
        """Whether the activity has begun long since, so that even the first heartbeat is news."""
        self.details = tuple(details)

    def heartbeat(self, *details: Any) -> None:
        """See ActivityOutboundInterceptor."""
        begins, self.has_begun = not self.has_begun, True
        if begins and not details:
            return
        if details and self._told is not None:
            self._told(details)
        self.details = details or self.details
        super().heartbeat(*self.details)


async def _beat(*, sync: bool) -> None:
    while True:
        if sync:
            # It waits for the event loop, so it must not be called on it.
            await asyncio.get_running_loop().run_in_executor(_BEATS, copy_context().run, activity.heartbeat)
        else:
            activity.heartbeat()
        await asyncio.sleep(BEAT_SECONDS)
