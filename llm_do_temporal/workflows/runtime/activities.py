"""Activities and signals, awaited from workflow code: the only way to run an effect.

Tool bodies run under anyio cancel scopes, which may cancel an await again and again. Temporal takes one
cancellation: without the shield below a cancelled tool can wedge its workflow for ever.

Owns the task queue of each activity, and the name of the model in the summary of its activity. The workflow knows the
existing queues: it has them from its worker's loading, or from an activity that did not find the files, so every
replay comes to the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import anyio
from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from llm_do_temporal.encryption.codec import could_not_read, lacks_key
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.extension import activity_refs
from llm_do_temporal.messages.activities import (
    FILE_ACTIVITIES,
    RECORD_AT_DESK,
    ActivityRef,
    DeskRecord,
    EditFileInput,
    Request,
    Result,
)
from llm_do_temporal.messages.base import AGENT_NAME, FILES_ELSEWHERE, NOT_BEGUN
from llm_do_temporal.messages.sizes import SUMMARY_CHARS, TOO_LARGE
from llm_do_temporal.policy.identity import call_key
from llm_do_temporal.policy.queues import Queues, files_queue
from llm_do_temporal.policy.values import canonical

_CALL: ContextVar[str] = ContextVar("llm_do_call", default="")
_KEY = "content_key"


class CallKeys:
    """Keys of an invocation's calls."""

    def __init__(self) -> None:
        self._turn = ""
        self._occurrences: Counter[str] = Counter()

    def begin_answer(self, turn_key: str) -> None:
        """Begin with the calls of the answer of this turn; empty: the turn has no key, and its calls have none."""
        self._turn = turn_key
        self._occurrences.clear()

    def key_of(self, tool: str, args: dict[str, Any]) -> str:
        """Return the key of a call that begins now: of the newest answer, or of the call that is being carried out."""
        by = current_call() or self._turn
        equal = canonical([by, tool, args])
        self._occurrences[equal] += 1
        return call_key(by, tool, args, self._occurrences[equal])


@contextmanager
def carried_out(key: str) -> Generator[None]:
    """Have this key as that of the call which the code inside carries out; empty: it has none."""
    before = _CALL.get()
    _CALL.set(key)
    try:
        yield
    finally:
        # No reset: a workflow that leaves memory is closed in another context.
        _CALL.set(before)


def current_call() -> str:
    """Return the key of the call that is being carried out; empty: there is none."""
    return _CALL.get()


def marked(request: Request) -> Request:
    """Return the request of an activity with the key of its call, where it has a field for that, which is not set."""
    if not isinstance(request, BaseModel) or _KEY not in type(request).model_fields or getattr(request, _KEY):
        return request
    return cast("Request", request.model_copy(update={_KEY: current_call()})) if current_call() else request


_OF_MODELS = f"agent__{AGENT_NAME}__"


@cache
def _of_files() -> frozenset[str]:
    """Return the names of the activities that need the files of a workshop."""
    return frozenset(ref.name for ref in (*FILE_ACTIVITIES, *activity_refs()))


class AskedModel(Protocol):
    """The model that an invocation asks, as far as the way to it goes."""

    @property
    def queue(self) -> str | None:
        """The task queue for requests to the model; None: the workflow's own."""
        ...

    def as_shown(self, summary: str) -> str:
        """The summary of a request with the name that people know the model by."""
        ...


@dataclass
class ActivityRoutes:
    """The task queues that a workflow's activities have of their own. Every workflow keeps them as `routes`."""

    queues: Queues
    model: AskedModel | None = None
    """None in a workflow that asks no model."""


class _Routed(Protocol):
    routes: ActivityRoutes


def _routes() -> ActivityRoutes:
    return cast("_Routed", workflow.instance()).routes


def queue_of(activity: str) -> str | None:
    """Return the task queue for an activity of the running workflow; None: the workflow's own."""
    routes = _routes()
    if routes.model is not None and activity.startswith(_OF_MODELS):
        return routes.model.queue
    if activity not in _of_files() or not routes.queues.files:
        return None
    return files_queue(workflow.info().task_queue)


def use_files_queue() -> None:
    """Send activities that need the files of the workshop to the files queue from here on, even where the run began
    without such a queue."""
    routes = _routes()
    routes.queues = routes.queues.model_copy(update={"files": True})


class TaskQueueInterceptor(Interceptor):
    """Sends each activity to its task queue. For every Temporal worker with workflows."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002 - named by the SDK
        """See Interceptor."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002 - named by the SDK
        input.task_queue = input.task_queue or queue_of(input.activity)
        model = _routes().model if input.activity.startswith(_OF_MODELS) else None
        if model is not None and input.summary:
            input.summary = model.as_shown(input.summary)
        return super().start_activity(input)


T = TypeVar("T")
LocalError: TypeAlias = ActivityError | ApplicationError | TemporalTimeoutError
LOCAL_ERRORS = (ActivityError, ApplicationError, TemporalTimeoutError)
"""Errors of local activities. The SDK raises those of the activity as they are; one that took too long it wraps when
that happens, and not when the history is replayed."""

HEARTBEAT_TIMEOUT = timedelta(seconds=4)
"""Longest time that a killed worker service goes unnoticed; activities beat every second."""
EFFECT_TIMEOUT = timedelta(minutes=5)
"""Longest single attempt of a file effect or a load; a slow network disk stays well below it."""
QUICK = timedelta(seconds=2)
"""Longest time that an effect may keep its workflow's task waiting."""
_KEY_WAIT = timedelta(seconds=2)
_LONGEST_KEY_WAIT = timedelta(minutes=10)
"""Each try is a few events: a week without the key must not fill a history."""
_RECORDED = timedelta(seconds=10)
_LONGEST_RECORD = timedelta(days=365)
_AGAIN_AND_AGAIN = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=5), maximum_attempts=0
)
_IDEMPOTENT = RetryPolicy(
    # After the death of a worker service mostly another one takes over at once.
    initial_interval=timedelta(milliseconds=250),
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=12,
    non_retryable_error_types=[TOO_LARGE],
)


async def await_shielded(handle: asyncio.Task[T]) -> T:
    """Await an activity or child handle so that it is cancelled exactly once, and finished before this returns."""
    try:
        return await asyncio.shield(handle)
    except asyncio.CancelledError:
        if not handle.done():
            handle.cancel()
            with anyio.CancelScope(shield=True):
                await workflow.wait([handle])
        raise


async def await_to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await what must not be left half done: a cancellation takes effect after it has ended."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await workflow.wait([task])
        raise


async def run_local_first(
    activity: ActivityRef[Request, Result], request: Request, *, summary: str, timeout: timedelta = EFFECT_TIMEOUT
) -> Result:
    """Run an activity that only reads, or is idempotent and mostly quick, and return its result.

    It is tried at once, within the workflow's task, which saves most of the time and the events of an activity. An
    activity that takes longer than QUICK there, or fails in a way that may pass, is run like any other. So is an
    activity that belongs to another task queue, or turns out to.
    """
    request = marked(request)
    if queue_of(activity.name) is not None:
        return await run_activity(activity, request, summary=summary, timeout=timeout)
    handle = workflow.start_local_activity(
        activity.name,
        request,
        result_type=activity.result,
        start_to_close_timeout=QUICK,
        retry_policy=RetryPolicy(maximum_attempts=1),
        summary=summary[:SUMMARY_CHARS],
    )
    try:
        return await await_shielded(handle)
    except LOCAL_ERRORS as error:
        if _is_elsewhere(error):
            use_files_queue()
        elif not _may_pass(error):
            raise
    return await run_activity(activity, request, summary=summary, timeout=timeout)


async def record_at_desk(news: DeskRecord, *, summary: str) -> None:
    """Keep news between the desk and the entry invocation in the history, as the result of a local activity."""
    handle = workflow.start_local_activity(
        RECORD_AT_DESK.name,
        news,
        result_type=RawValue,
        start_to_close_timeout=_RECORDED,
        local_retry_threshold=_LONGEST_RECORD,
        retry_policy=_AGAIN_AND_AGAIN,
        summary=summary[:SUMMARY_CHARS],
    )
    await await_shielded(handle)


def _may_pass(error: LocalError) -> bool:
    """Whether another attempt may succeed."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        return not cause.non_retryable
    return isinstance(cause, TemporalTimeoutError)


async def run_activity(
    activity: ActivityRef[Request, Result], request: Request, *, summary: str, timeout: timedelta = EFFECT_TIMEOUT
) -> Result:
    """Run an idempotent activity and return its result; `timeout` is for one attempt."""
    first = again = marked(request)
    requests = iter((first,))
    if isinstance(again, EditFileInput):
        # Attempts before may have come to their effect: a new activity does not count them.
        again = again.model_copy(update={"retried": True})
    return await run_until_started(
        lambda: workflow.start_activity(
            activity.name,
            next(requests, again),
            result_type=activity.result,
            start_to_close_timeout=timeout,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_IDEMPOTENT,
            summary=summary[:SUMMARY_CHARS],
        ),
        or_passes=lambda error: lacks_key(error) or lacks_blobs(error),
    )


async def run_until_started(
    start: Callable[[], workflow.ActivityHandle[T]], or_passes: Callable[[ActivityError], bool] = lambda _: False
) -> T:
    """Run an activity, and again for as long as worker services lack an encryption key, the blob store or the files.

    Without these, or too late, they did not begin, so there is no effect. Where an activity may run twice, `or_passes`
    names further errors that are worth waiting for.
    """
    wait = _KEY_WAIT
    while True:
        try:
            return await await_shielded(start())
        except ActivityError as error:
            if _is_elsewhere(error):
                use_files_queue()
                continue
            has_begun = not (could_not_read(error) or could_not_fetch(error) or _came_late(error))
            if has_begun and not or_passes(error):
                raise
            missing = _missing(error)
        await workflow.sleep(wait, summary=f"wait for {missing}")
        wait = min(wait * 2, _LONGEST_KEY_WAIT)


def _is_elsewhere(error: LocalError) -> bool:
    """Whether an activity failed because the files of the workshop are at another task queue."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return isinstance(cause, ApplicationError) and cause.type == FILES_ELSEWHERE


def _missing(error: ActivityError) -> str:
    """Name what an activity could not begin without."""
    if lacks_key(error):
        return "an encryption key"
    return "the server" if _came_late(error) else "the blob store"


def _came_late(error: ActivityError) -> bool:
    """Whether an attempt has not begun because the server may have given it up."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == NOT_BEGUN


def lacks_blobs(error: ActivityError) -> bool:
    """Whether an activity failed because the blob store did not answer, before its effect or after it."""
    return _is_unreachable(error.cause) or could_not_fetch(error)


def could_not_fetch(error: ActivityError) -> bool:
    """Whether an activity failed before it began, because the blob store did not give its input.

    The SDK wraps that error without a type; errors of the activity itself, perhaps after its effect, have a type.
    """
    cause = error.cause
    return isinstance(cause, ApplicationError) and not cause.type and _is_unreachable(cause.cause)


def _is_unreachable(cause: BaseException | None) -> bool:
    return isinstance(cause, ApplicationError) and cause.type == BlobsUnreachable.__name__


async def send_signal(workflow_id: str, signal: str, argument: BaseModel) -> None:
    """Signal another workflow and wait until the server has taken it."""
    handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(workflow_id)

    async def send() -> None:
        await handle.signal(signal, argument)

    await await_shielded(asyncio.create_task(send()))
