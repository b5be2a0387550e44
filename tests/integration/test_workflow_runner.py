"""Workflow code on a machine that has no time for it: nothing is lost, and the service goes on and ends."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from llm_do_temporal.service.workflow_runner import WorkflowRunner, allow_long_tasks

LIMIT = timedelta(seconds=90)
STARVED_SECONDS = 4
"""Twice as long as the SDK waits for a workflow's task."""
SLOW_SECONDS = 2.5
"""Longer than the 2 s of the SDK, shorter than what the server gives a task."""
attempts: list[str] = []
survived: list[str] = []
closed: list[str] = []


class _Starved:
    """Thing whose finalizer gets no processor."""


@workflow.defn
class Starved:
    """Workflow whose first task gets no processor for longer than the SDK waits, with tasks of its own under way.

    It happens in a finalizer: an exception that is thrown into it is told to nobody but `sys.unraisablehook`.
    """

    @workflow.run
    async def run(self) -> str:
        """Return once all tasks have had their turn."""
        waiting = [asyncio.create_task(self._wait(number)) for number in range(20)]
        await asyncio.sleep(0)
        attempts.append(workflow.info().run_id)
        if len(attempts) == 1:
            starved = _Starved()
            weakref.finalize(starved, time.sleep, STARVED_SECONDS)  # the thread is what is kept
            del starved
            survived.append(workflow.info().run_id)
        return str(sum(await asyncio.gather(*waiting)))

    async def _wait(self, number: int) -> int:
        await workflow.sleep(0.1)
        return number


class Connection:
    """Connection of a client library, whose finalizer gives its closing to the event loop that it finds."""

    def __init__(self) -> None:
        self.itself = self
        """What only a collection of garbage takes apart."""

    async def close(self) -> None:
        """Close it."""
        closed.append("in a workflow")

    def __del__(self) -> None:
        try:
            asyncio.get_running_loop().create_task(self.close())
        except RuntimeError:
            closed.append("by nobody")


@workflow.defn
class Slow:
    """Workflow each of whose tasks takes longer than the SDK waits, as the replay of a long history does."""

    @workflow.run
    async def run(self) -> int:
        """Return once a timer has gone off."""
        time.sleep(SLOW_SECONDS)  # noqa: ASYNC251 - the thread is what is kept
        await workflow.sleep(0.1)
        return 1


@workflow.defn
class Collecting:
    """Workflow in which Python collects garbage."""

    @workflow.run
    async def run(self) -> int:
        """Return the number of tasks after the collection."""
        Connection()
        gc.collect()
        await asyncio.sleep(0)
        mine = asyncio.create_task(asyncio.sleep(0))
        await mine
        return len(asyncio.all_tasks())


async def done_by(
    server: WorkflowEnvironment, kind: type, runner: UnsandboxedWorkflowRunner, *, has_time: bool = False
) -> object:
    """Return the result of a workflow, once the worker that ran it has ended; `has_time`: as those of services have."""
    queue = f"test-{uuid4().hex}"
    worker = Worker(
        server.client,
        task_queue=queue,
        workflows=[kind],
        workflow_runner=runner,
        workflow_task_executor=ThreadPoolExecutor(8, thread_name_prefix="workflow"),
    )
    if has_time:
        allow_long_tasks([worker])
    async with worker:
        return await server.client.execute_workflow(
            kind.__name__, id=queue, task_queue=queue, execution_timeout=LIMIT, task_timeout=timedelta(seconds=5)
        )


@pytest.mark.thorough
async def test_a_workflow_that_got_no_processor_goes_on_and_its_worker_ends(server: WorkflowEnvironment) -> None:
    attempts.clear()
    survived.clear()
    async with asyncio.timeout(LIMIT.total_seconds()):
        assert await done_by(server, Starved, WorkflowRunner()) == "190"
    assert len(attempts) >= 2
    assert survived == attempts[:1]


async def test_a_workflow_whose_tasks_are_slow_goes_on(server: WorkflowEnvironment) -> None:
    async with asyncio.timeout(LIMIT.total_seconds()):
        assert await done_by(server, Slow, WorkflowRunner(), has_time=True) == 1


async def test_a_collection_of_garbage_starts_nothing_in_a_workflow(server: WorkflowEnvironment) -> None:
    closed.clear()
    assert await done_by(server, Collecting, WorkflowRunner()) == 1
    assert set(closed) == {"by nobody"}


async def test_with_the_runner_of_the_library_it_would(server: WorkflowEnvironment) -> None:
    closed.clear()
    await done_by(server, Collecting, UnsandboxedWorkflowRunner())
    assert set(closed) == {"in a workflow"}
