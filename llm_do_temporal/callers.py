"""Calling a worker from Python that works for a run: what a tool knows of its invocation, and how it asks it.

A function of `tools.py` or a toolset runs in an activity. The call itself is made by the invocation's workflow: it is
asked by an update whose id depends on the call alone, so that whoever asks again, after a crash or a lost connection,
gets the answer of the call that was made. Must not load agents: scripts that start runs load this.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from temporalio import activity
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.activities import CALL_FOR_TOOL_UPDATE, CalledForTool, CallForToolInput, ToolCaller
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.tools import ToolCallFailed

T = TypeVar("T")
MOST_AT_ONCE = 10
"""Calls that one tool waits for at a time: a server takes no more updates of one workflow that are not answered."""
_CANCEL_POLL_SECONDS = 0.5
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
"""Seconds between two tries to ask."""
PASSING_STATUSES = frozenset(
    {
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.UNKNOWN,
    }
)
"""Status of a server that is too busy or just starts, also when too many calls are unanswered."""


@dataclass(frozen=True)
class WorkerRunResult:
    """Result of a run, or of one call of a worker."""

    output: Any
    """The worker's text, or its structured value."""
    usage: Usage
    """Amounts that the worker and everything below it spent."""
    run: str
    """The run's id, for `llm-do-temporal show` and the other commands."""
    truncated: str | None = None
    """Reason why the answer was cut, `length` or `content_filter`; None: it was not."""


class WorkerCall(Coroutine[Any, Any, WorkerRunResult]):
    """A call of a worker. Await it; where no event loop runs in the calling thread, it is the result already."""

    def __init__(self, work: Coroutine[Any, Any, WorkerRunResult]) -> None:
        """`work` makes the call: at once, and to its end, where no event loop runs in this thread."""
        self._work = work
        self._result: WorkerRunResult | None = None if loop_is_running() else run_in_thread(work)

    @property
    def output(self) -> Any:
        """See WorkerRunResult. Raises UsageError where the call has to be awaited first."""
        return self._done.output

    @property
    def usage(self) -> Usage:
        """See WorkerRunResult. Raises UsageError where the call has to be awaited first."""
        return self._done.usage

    @property
    def run(self) -> str:
        """See WorkerRunResult. Raises UsageError where the call has to be awaited first."""
        return self._done.run

    @property
    def _done(self) -> WorkerRunResult:
        if self._result is None:
            raise UsageError("the worker was not called yet", next_step="In async code, write `await call_worker(…)`.")
        return self._result

    def __await__(self) -> Generator[Any, Any, WorkerRunResult]:
        """The result, once it is there."""
        if self._result is None:
            self._result = yield from self._work.__await__()
        return self._result

    def send(self, value: Any) -> Any:
        """See Coroutine."""
        if self._result is not None:
            raise StopIteration(self._result)
        return self._work.send(value)

    def throw(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None) -> Any:
        """See Coroutine."""
        return self._work.throw(cast("BaseException", typ if val is None else val))

    def close(self) -> None:
        """See Coroutine."""
        self._work.close()


class TimeLimit:
    """Limit on the time of an attempt at a tool, waiting for workers not counted."""

    def __init__(self, seconds: float | None) -> None:
        """`seconds` from now on; None: there is no limit."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._counted = 0.0
        self._since: float | None = time.monotonic()
        self._waiting = 0

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        with self._lock:
            since = 0.0 if self._since is None else time.monotonic() - self._since
            return self._seconds is not None and self._counted + since > self._seconds

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Do not count the time until this ends."""
        with self._lock:
            self._waiting += 1
            if self._since is not None:
                self._counted += time.monotonic() - self._since
                self._since = None
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._since = time.monotonic()


class _BegunAnew(BaseException):
    """The tool was tried within its workflow's task, which cannot take a question before that is done."""


@dataclass
class _Door:
    """The way from one attempt at a tool to the workflow that it works for."""

    client: Client
    workflow_id: str
    workflow_run: str
    call: str
    local: bool
    """Whether the workflow's task waits for this attempt, so that it cannot answer."""
    limit: TimeLimit
    wants_activity: bool = False
    """Whether a call was refused because of `local`."""
    _numbers: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lines: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = field(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
    )

    def check(self) -> None:
        """Raise where no worker can be called."""
        if not self.call:
            raise ToolCallFailed("workers can be called only while a tool is called")
        if self.local:
            self.wants_activity = True
            raise _BegunAnew

    def update_id(self, request: CallForToolInput) -> str:
        """The id for the next call like this: the same for whoever makes it again in another attempt."""
        said = request.model_dump_json()
        with self._lock:
            self._numbers[said] += 1
            facts = f"{self._numbers[said]}\n{said}"
        return hashlib.sha256(facts.encode()).hexdigest()

    async def ask(self, request: CallForToolInput, update: str) -> CalledForTool:
        """The answer, however long it takes. Raises ToolCallFailed where there will be none."""
        with self._lock:
            line = self._lines.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MOST_AT_ONCE))
        with self.limit.stopped():
            async with line:
                return await self._answer(request, update)

    async def _answer(self, request: CallForToolInput, update: str) -> CalledForTool:
        handle = self.client.get_workflow_handle(self.workflow_id, run_id=self.workflow_run)
        wait = _FIRST_WAIT
        while True:
            asking = handle.execute_update(CALL_FOR_TOOL_UPDATE, request, id=update, result_type=CalledForTool)
            try:
                return await _unless_cancelled(asking)
            except WorkflowUpdateFailedError as error:
                raise ToolCallFailed(str(getattr(error.cause, "message", None) or error.cause)) from error
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                pass
            except RPCError as error:
                if error.status not in PASSING_STATUSES:
                    raise ToolCallFailed(f"'{request.worker}' could not be called: {error.message}") from error
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


@dataclass(frozen=True)
class CallerContext:
    """The invocation that Python code works for; the `deps` of a toolset's `RunContext`."""

    run: str
    """Id of the run."""
    path: str
    """Position of the invocation in its run, like `main/evaluator-2`."""
    worker: str
    """Name of its worker."""
    depth: int
    """Level of the worker in the tree; the entry worker's is 0."""
    max_depth: int
    """The deepest level at which a worker may run."""
    _door: _Door = field(repr=False, compare=False)

    @staticmethod
    def current() -> CallerContext | None:
        """The invocation whose tool runs here; None outside of one, also in a thread that the tool has started."""
        return _current.get()

    def call_worker(
        self, worker: str, input_data: Any, *, attachments: Sequence[str | os.PathLike[str]] | None = None
    ) -> WorkerCall:
        """Call a worker for this invocation; see `llm_do_temporal.call_worker`."""
        return WorkerCall(self._called(worker, input_data, attachments))

    async def _called(
        self, worker: str, input_data: Any, attachments: Sequence[str | os.PathLike[str]] | None
    ) -> WorkerRunResult:
        door = self._door
        door.check()
        request = _request(door.call, worker, input_data, attachments)
        answer = await door.ask(request, door.update_id(request))
        if answer.failure is not None:
            raise ToolCallFailed(answer.failure)
        return WorkerRunResult(output=answer.output, usage=answer.usage, run=self.run)


_current: ContextVar[CallerContext | None] = ContextVar("llm_do_caller", default=None)
_limit: ContextVar[TimeLimit | None] = ContextVar("llm_do_time_limit", default=None)


@contextmanager
def limited_to(seconds: float | None) -> Generator[TimeLimit]:
    """The time that an attempt at a tool has, for the code in it; None: no limit."""
    limit = TimeLimit(seconds)
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


@contextmanager
def working_for(caller: ToolCaller, client: Client) -> Generator[CallerContext]:
    """Let the code in this call workers for an invocation."""
    info = activity.info()
    door = _Door(
        client=client,
        workflow_id=info.workflow_id or "",
        workflow_run=info.workflow_run_id or "",
        call=caller.call,
        local=info.is_local,
        limit=_limit.get() or TimeLimit(None),
    )
    context = CallerContext(**caller.model_dump(exclude={"call"}), _door=door)
    token = _current.set(context)
    try:
        yield context
    except BaseException:
        if not door.wants_activity:
            raise
    finally:
        _current.reset(token)
    if door.wants_activity:
        # Whatever the tool has made of it: the next attempt is an activity, which can call workers.
        raise ApplicationError("a tool that calls workers is an activity of its own", type=_BegunAnew.__name__)


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in this thread, which has no event loop.

    In an activity it is cancelled with that, and raises Temporal's CancelledError.
    """
    if not activity.in_activity():
        return _run_alone(work)
    # The loop is told of a cancellation; an exception thrown into its thread would be lost in it.
    with activity.shield_thread_cancel_exception():
        return _run_alone(_until_cancelled(work))


def _run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop that ends with it, and with all that it has left there.

    Libraries such as nest_asyncio replace `asyncio.run` for the whole process by one that keeps the loop of a thread.
    """
    with asyncio.Runner() as runner:
        return runner.run(work)


async def _until_cancelled(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait([task], timeout=_CANCEL_POLL_SECONDS)
        if activity.is_cancelled():
            task.cancel()
    if task.cancelled() and activity.is_cancelled():
        raise CancelledError("cancelled")
    return task.result()


async def _unless_cancelled(asking: Coroutine[Any, Any, T]) -> T:
    """Await what the client does, and leave it when cancelled: the SDK makes an error of its own of that."""
    task = asyncio.create_task(asking)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
    return task.result()


def _request(
    call: str, worker: str, input_data: Any, attachments: Sequence[str | os.PathLike[str]] | None
) -> CallForToolInput:
    paths = tuple(os.fspath(path) for path in attachments) if attachments else None
    try:
        given = to_jsonable_python(input_data)
        return CallForToolInput(call=call, worker=worker, input_data=given, attachments=paths)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise ToolCallFailed(f"'{worker}' was not called: {problem.removeprefix('Value error, ')}") from error
    except (PydanticSerializationError, ValueError) as error:
        raise ToolCallFailed(f"the input of '{worker}' cannot be written as JSON: {error}") from error


def loop_is_running() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
