"""Where work goes: limits of a provider over all services, files where they are, and whose turn it is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest_asyncio
import yaml
from pydantic_ai.messages import ModelMessage
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.big_payloads import with_big_payloads
from llm_do_temporal.blob_places import workshop_blobs
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.children import SERVER_OPTIONS
from llm_do_temporal.messages import MODEL_ACTIVITY, StartRunInput
from llm_do_temporal.policy.queues import Role
from llm_do_temporal.polling import Workers
from llm_do_temporal.service import ServiceSettings, build_worker
from llm_do_temporal.testing import call, scripted
from tests.integration.conftest import Place, development_server, served
from tests.support.answers import Text
from tests.support.provider import FakeProvider

PATIENCE_SECONDS = 60


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fair() -> AsyncIterator[WorkflowEnvironment]:
    """A server with the options of the embedded one."""
    async with development_server(*SERVER_OPTIONS) as environment:
        yield environment


async def until(found: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await found():
        assert time.monotonic() < deadline, f"{what} within {PATIENCE_SECONDS} s"
        await asyncio.sleep(0.02)


async def activities_of(server: WorkflowEnvironment, queue: str) -> DescribeTaskQueueResponse:
    """What the server knows of the activities at a task queue."""
    return await server.client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=server.client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            report_stats=True,
        )
    )


# --- a provider's limit ---

RATE, RUNS, SERVICES = 2, 9, 3
AT_ONCE = RATE + 1
"""What the server hands out without waiting after a pause: a second's worth and one more."""


@contextmanager
def services(workshop: Path, address: str, queue: str, provider: FakeProvider) -> Generator[None]:
    """Worker services in processes of their own."""
    environment = {**os.environ, "OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-test"}
    command = [sys.executable, "-m", "tests.support.forked_services", str(SERVICES), address, queue, str(workshop)]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


async def test_a_providers_limit_holds_over_three_processes(fair: WorkflowEnvironment, tmp_path: Path) -> None:
    queue = f"test-{uuid4().hex}"
    (tmp_path / "workshop.yaml").write_text(f"providers: {{openai: {{max_requests_per_second: {RATE}}}}}\n")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "greeter.worker").write_text("model: openai-chat:any\n---\nGreet.\n")
    address = fair.client.service_client.config.target_host
    client = LlmDoClient(fair.client, task_queue=queue)

    async def all_poll() -> bool:
        return len({one.identity for one in (await activities_of(fair, f"{queue}.models.openai")).pollers}) == SERVICES

    with (
        FakeProvider(lambda _request, _number: Text("Hello.")) as provider,
        services(tmp_path, address, queue, provider),
    ):
        await until(all_poll, "all services ask for requests to the provider")
        began = time.time()
        runs = [await client.start(StartRunInput(worker="greeter", prompt="hello")) for _ in range(RUNS)]
        for run in runs:
            await client.result(run)
        waited = [request.arrived_at - began for request in provider.requests]
    assert len(waited) == RUNS
    # From the beginning on no request was sent before its time; one that is slow to arrive only comes later.
    due = [max(0, number - AT_ONCE) / RATE for number in range(1, RUNS + 1)]
    assert [at for at, earliest in zip(sorted(waited), due, strict=True) if at < earliest - 0.05] == []


# --- files where they are ---

SEPARATE: dict[str, Any] = {"separate_files": True, "sandbox": {"root": "data"}, "providers": {"test": {}}}


@asynccontextmanager
async def two_machines(server: WorkflowEnvironment, tmp_path: Path) -> AsyncGenerator[Place]:
    """A workshop whose files are served by one service, and all else by another that has `workshop.yaml` alone."""
    queue = f"test-{uuid4().hex}"
    keys: dict[str, Any] = {**SEPARATE, "blobs": {"url": (tmp_path / "store").as_uri()}}
    files, elsewhere = tmp_path / "files", tmp_path / "elsewhere"
    for folder in (files, elsewhere):
        folder.mkdir()
        (folder / "workshop.yaml").write_text(yaml.safe_dump(keys), encoding="utf-8")
    (files / "data").mkdir()

    def serving(folder: Path, *roles: Role) -> Workers:
        return build_worker(server.client, folder, ServiceSettings(task_queue=queue, only=frozenset(roles)))

    async with serving(files, "files"), serving(elsewhere, "workflows", "models"):
        client = with_big_payloads(server.client, workshop_blobs(files))
        place = Place(files, LlmDoClient(client, task_queue=queue), queue)
        yield place
        await place.replay()


async def test_a_run_goes_on_where_the_files_are_not(server: WorkflowEnvironment, tmp_path: Path) -> None:
    async with two_machines(server, tmp_path) as place:
        place.write("data/notes.txt", "seven decks")
        place.write("data/deck.pdf", "%PDF-1.7 a deck")
        place.write(
            "tools.py",
            '"""Tools."""\n\n\ndef here() -> bool:\n    """Whether the notes are here."""\n'
            '    from pathlib import Path\n\n    return (Path(__file__).parent / "data/notes.txt").exists()\n',
        )
        child = scripted("Read it.")
        place.worker("reader", child)
        script = scripted(
            [call("read_file", path="/notes.txt"), call("here"), call("write_file", path="/new.txt", content="new")],
            call("reader", input="go", attachments=["/deck.pdf"]),
            "Done.",
        )
        toolsets: dict[str, Any] = {"filesystem": {}, "custom": {"here": {}}, "delegation": {"reader": {}}}
        place.worker("main", script, toolsets=toolsets)
        run = await place.start("main", mode="approve_all")
        assert (await place.client.result(run)).output == "Done."
        told = script.requests[1]
        assert "seven decks" in told.results("read_file")[0].text
        assert told.results("here")[0].text == "true"
        assert (place.folder / "data/new.txt").read_text() == "new"
        assert [one.data for one in child.requests[0].attachments] == [b"%PDF-1.7 a deck"]
        assert await queues_used(place) == {
            f"{place.queue}.models.test": {MODEL_ACTIVITY},
            f"{place.queue}.files": {
                "load_run",
                "load_worker",
                "read_file",
                "write_file",
                "call_python_tool",
                "snapshot_attachments",
            },
        }


async def queues_used(place: Place) -> dict[str, set[str]]:
    """The activities that were scheduled, by task queue."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for history in await place.histories():
        for event in history.events:
            if event.HasField("activity_task_scheduled_event_attributes"):
                scheduled = event.activity_task_scheduled_event_attributes
                found[scheduled.task_queue.name].add(scheduled.activity_type.name)
    return found


# --- turns ---

ITEMS = 10


async def test_a_question_has_its_turn_long_before_a_batch_is_through(
    fair: WorkflowEnvironment, tmp_path: Path
) -> None:
    order: list[str] = []
    may_answer = asyncio.Event()

    async def answer(messages: list[ModelMessage]) -> str:
        order.append("question" if "question" in str(messages) else "item")
        await may_answer.wait()
        return "Done."

    async with served(fair, tmp_path, max_concurrent_activities=1) as place:

        async def waiting() -> int:
            return (await activities_of(fair, place.queue)).stats.approximate_backlog_count

        place.worker("main", scripted(answer))
        items = [{"name": f"n{number}", "prompt": f"item {number}"} for number in range(ITEMS)]
        batch = await place.start("main", prompt="", batch={"items": items, "concurrency": ITEMS})
        await until(lambda: at_least(waiting, ITEMS - 1), "all items but the first wait")
        question = await place.start("main", "the question")
        await until(lambda: at_least(waiting, ITEMS), "the question waits, too")
        may_answer.set()
        for run in (batch, question):
            await place.client.result(run)
    assert len(order) == ITEMS + 1
    assert order.index("question") < ITEMS / 2


async def at_least(count: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await count() >= wanted
