"""Runner of workflow code: one thread at a time in a workflow, and no work of finalizers in its event loop.

The SDK reports a workflow task that takes longer than 2 s as a deadlock, interrupts its thread and drops the workflow
from memory, without waiting for the thread. Where a machine is so busy that our code gets no processor for that long,
two threads would then be in one event loop: tasks that both step are lost, the workflow is never dropped, and the
service neither gives it to another nor ends. The interruption is an exception between two bytecodes, wherever the
thread happens to be; in a finalizer it is lost. The thread of a busy machine ends by itself, so it is not interrupted
here, and it has TASK_SECONDS: a workflow that is dropped replays its whole history, which takes longer still, so that
a run with a long history would never go on.

Python collects garbage in whichever thread asks for memory. Finalizers of client libraries (google-genai's among them)
give closing of connections to the event loop that runs there, which in workflow code is the workflow's.

A task that ends with SystemExit or KeyboardInterrupt stops the event loop that it runs in. In workflow code an author's
function could so end the worker service, which would take the run up again and end again.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import traceback
from asyncio import Task
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowInstance, WorkflowInstanceDetails

_log = logging.getLogger(__name__)

TASK_SECONDS = 120
"""Time after which a workflow task counts as one that will not end. The server gives one that has timed out three times
more and more time, up to 10 minutes; our own code does not need two on any machine that gets anything done."""
PATIENCE_SECONDS = 1.5
"""Time for which dropping a workflow waits for its thread; the SDK tries again without end, each time later."""


class WorkflowRunner(UnsandboxedWorkflowRunner):
    """Runner without the SDK's sandbox, whose instances are entered by one thread at a time."""

    def __init__(self) -> None:
        super().__init__()
        _collection.watch()

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See UnsandboxedWorkflowRunner."""
        instance: Any = super().create_instance(det)
        instance.activate = _one_at_a_time(instance.activate)
        instance.create_task = _harmless(instance.create_task)
        instance.get_thread_id = _not_to_be_interrupted(instance.get_thread_id)
        return instance


def allow_long_tasks(workers: Sequence[Worker]) -> None:
    """Let workflow tasks of these workers take TASK_SECONDS, and not 2 s, which the SDK has no setting for."""
    for worker in workers:
        workflows: Any = worker._workflow_worker  # pyright: ignore[reportPrivateUsage]
        if workflows is not None:
            workflows._deadlock_timeout_seconds = TASK_SECONDS


class _Collection(threading.local):
    """Whether this thread collects garbage at the moment."""

    is_running = False

    def watch(self) -> None:
        """Be told of collections from now on, in all threads."""
        if self.note not in gc.callbacks:
            gc.callbacks.append(self.note)

    def note(self, phase: str, _info: dict[str, int]) -> None:
        """Note that a collection starts or ends; see gc.callbacks."""
        self.is_running = phase == "start"


_collection = _Collection()


def _one_at_a_time(
    activate: Callable[[WorkflowActivation], WorkflowActivationCompletion],
) -> Callable[[WorkflowActivation], WorkflowActivationCompletion]:
    entered = threading.Lock()

    def enter(act: WorkflowActivation) -> WorkflowActivationCompletion:
        if not entered.acquire(timeout=PATIENCE_SECONDS):
            raise RuntimeError("another thread is still at work in this workflow; it is dropped once that ends")
        try:
            return activate(act)
        finally:
            entered.release()

    return enter


def _not_to_be_interrupted(get_thread_id: Callable[[], int | None]) -> Callable[[], None]:
    """Return what names no thread to throw an exception into, and logs where the thread is."""

    def log_thread() -> None:
        frame = sys._current_frames().get(get_thread_id() or 0)  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame))
        _log.warning("A workflow task takes longer than %s s. It is at:\n%s", TASK_SECONDS, stack)

    return log_thread


def _harmless(create_task: Callable[..., Task[Any]]) -> Callable[..., Task[Any]]:
    """Return what makes tasks that cannot stop the event loop, and with it the worker service; none for finalizers."""

    async def run(coro: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await coro
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"a task raised {type(error).__name__}") from error

    def create(coro: Coroutine[Any, Any, Any], **options: Any) -> Task[Any]:
        if _collection.is_running:
            coro.close()
            raise RuntimeError("a finalizer may start nothing in a workflow")
        return create_task(run(coro), **options)

    return create
