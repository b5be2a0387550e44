"""Workflows and events of a run, and what the server does to them where a process is slow."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from llm_do_temporal.activities import definitions
from llm_do_temporal.client.embedded.host import await_server, has_open_work, server_command, spawn
from llm_do_temporal.client.history.events import local_effect
from llm_do_temporal.definitions.workshop import Workshop, load_workshop
from llm_do_temporal.extension import run_starters
from llm_do_temporal.messages.activities import LOAD_RUN, PREVIEW_WRITE, RECORD_AT_DESK
from llm_do_temporal.messages.base import RUN_MEMO, RUN_WORKFLOW
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from llm_do_temporal.service.workflow_runner import WorkflowRunner, allow_long_tasks
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.runtime import activities
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import held_port
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

EXPECTED = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: 1,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED: 2,  # the entry invocation, and the question
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 1,  # that it waits
}


async def workflows(place: Place, run: str) -> list[str]:
    """Ids of all workflows that the history of the run leads to, in order."""
    return sorted({history.workflow_id for history in await place.histories() if history.workflow_id.startswith(run)})


async def test_a_run_that_delegates_nothing_is_one_workflow_and_signals_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine what is quick may take longer, and would be an activity then.
    monkeypatch.setattr(activities, "QUICK", timedelta(seconds=PATIENCE_SECONDS))
    run, _ = await start_parked(place, write_call(), "Done.")
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    assert {kind: kinds[kind] for kind in EXPECTED} == EXPECTED
    local = [effect.activity for effect in map(local_effect, history.events) if effect is not None]
    assert local == [LOAD_RUN.name, PREVIEW_WRITE.name, RECORD_AT_DESK.name]
    await place.decide(run)
    await place.client.result(run)
    assert await workflows(place, run) == [run]
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    assert not kinds[EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED]
    assert not kinds[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED]


async def test_what_is_delegated_is_a_workflow_of_its_own_and_asks_by_signal(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert asked.request.invocation == f"{run}/main/child-1"
    await place.decide(run)
    await place.client.result(run)
    assert await workflows(place, run) == [run, f"{run}/main/child-1"]
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    assert kinds[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED] == 1  # the question
    assert kinds[EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED] == 1  # its answer


async def test_a_run_is_called_by_the_first_line_of_its_prompt_whoever_starts_it(place: Place) -> None:
    place.worker("main", scripted("Done."))
    prompt = "\n  Tidy the garden \nand water it"
    bare = await place.start_raw({"worker": "main", "prompt": prompt})
    await place.client.result(bare)
    ours = await place.start("main", prompt)
    await place.client.result(ours)
    for run in (bare, ours):
        memo = await (await place.client.temporal.get_workflow_handle(run).describe()).memo()
        assert memo[RUN_MEMO]["task"] == "Tidy the garden"


def test_what_a_run_is_called_is_as_long_as_a_summary() -> None:
    assert RunMemo.of(StartRunInput(worker="main", prompt="x" * 1_000)).task == "x" * 200
    assert RunMemo.of(StartRunInput(worker="main", prompt=" \n\t")).task == ""


async def test_workflow_tasks_of_runs_and_children_time_out_after_five_seconds(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted("Done."))
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    await place.client.result(run)
    for flow in await workflows(place, run):
        history = await place.client.temporal.get_workflow_handle(flow).fetch_history()
        started = history.events[0].workflow_execution_started_event_attributes
        assert started.workflow_task_timeout.ToTimedelta() == timedelta(seconds=5)


async def test_what_takes_too_long_within_a_workflow_task_is_an_activity_then_and_in_every_replay(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture replays the history."""
    others: list[int] = []

    def slow_within_a_task(folder: Path) -> Workshop:
        if activity.info().is_local:
            activity.wait_for_cancelled_sync()
        else:
            others.append(activity.info().attempt)
        return load_workshop(folder)

    monkeypatch.setattr(activities, "QUICK", timedelta(milliseconds=100))
    monkeypatch.setattr(definitions, "load_workshop", slow_within_a_task)
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Done."
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    assert scheduled.count(LOAD_RUN.name) == 1
    assert len(others) == 1


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


async def counted(client: Client, expected: bool) -> None:
    """Wait until work is open, or none is: the server counts a workflow a moment after its start or end."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await has_open_work(client) is not expected:
            pass


@pytest.mark.embedded("one is started here")
async def test_open_runs_and_experiments_are_work(tmp_path: Path) -> None:
    with held_port() as port:
        address, log = f"127.0.0.1:{port}", tmp_path / "server.log"
        server = spawn(server_command(address, tmp_path / "temporal.db", None), log)
        try:
            client = await await_server(server, address, tmp_path / "temporal.db", log)
            assert not await has_open_work(client)
            for workflow in (*(one.workflow for one in run_starters()), RUN_WORKFLOW):
                handle = await client.start_workflow(workflow, id=workflow, task_queue="nobody-polls-this")
                await counted(client, expected=True)
                await handle.terminate()
                await counted(client, expected=False)
        finally:
            server.kill()
            server.wait()
