"""Where work goes and whose turn it is, also where a service is full, blocked or late."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
import pytest_asyncio
import yaml
from pydantic_ai.messages import ModelMessage
from temporalio import activity, workflow
from temporalio.api.enums.v1 import PendingActivityState, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import AsyncActivityHandle, Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    ResourceBasedTunerConfig,
    Worker,
)

from llm_do_temporal.activities.runtime import beater
from llm_do_temporal.activities.runtime import interceptors as heartbeats
from llm_do_temporal.activities.runtime.interceptors import LATE, HeartbeatInterceptor
from llm_do_temporal.cli.terminal.run_picture import activity_of
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connections import Connection
from llm_do_temporal.client.embedded.host import SERVER_OPTIONS
from llm_do_temporal.client.views import pending_work
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.queues import ROLES, Role
from llm_do_temporal.service.build import LEAST_ACTIVITIES, ServiceSettings, Workers, build_worker
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.forked_program import fork
from tests.support.providers.answers import Text
from tests.support.providers.provider import FakeProvider
from tests.support.runs.place import Place, served
from tests.support.servers.blocked_service import TOOLSET, serve
from tests.support.servers.session import TALKATIVE, connection_variables, session_server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fair() -> AsyncIterator[WorkflowEnvironment]:
    """A server with the options of the embedded one, which tells at once how much waits."""
    async with session_server(TALKATIVE, *SERVER_OPTIONS) as environment:
        yield environment


async def until(found: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await found():
        assert time.monotonic() < deadline, f"{what} within {PATIENCE_SECONDS} s"
        await asyncio.sleep(0.02)


async def activities_of(server: WorkflowEnvironment, queue: str) -> DescribeTaskQueueResponse:
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
def services(workshop: Path, temporal: Client, queue: str, provider: FakeProvider) -> Generator[None]:
    environment = {**os.environ, **connection_variables(temporal)}
    environment |= {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-test"}
    command = [
        sys.executable,
        "-m",
        "tests.support.servers.forked_services",
        str(SERVICES),
        queue,
        str(workshop),
    ]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


@pytest.mark.thorough
async def test_a_providers_limit_holds_over_three_processes(fair: WorkflowEnvironment, tmp_path: Path) -> None:
    queue = f"test-{uuid4().hex}"
    (tmp_path / "workshop.yaml").write_text(f"providers: {{openai: {{max_requests_per_second: {RATE}}}}}\n")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "greeter.worker").write_text("model: openai-chat:any\n---\nGreet.\n")
    client = LlmDoClient(fair.client, task_queue=queue)

    async def all_poll() -> bool:
        return len({one.identity for one in (await activities_of(fair, f"{queue}.models.openai")).pollers}) == SERVICES

    with (
        FakeProvider(lambda _request, _number: Text("Hello.")) as provider,
        services(tmp_path, fair.client, queue, provider),
    ):
        await until(all_poll, "all services ask for requests to the provider")
        began = time.time()
        runs = [await client.start(StartRunInput(worker="greeter", prompt="hello")) for _ in range(RUNS)]
        for run in runs:
            await client.result(run)
        waited = [request.arrived_at - began for request in provider.requests]
    assert len(waited) >= RUNS
    # From the beginning on no request was sent before its time; one that is slow to arrive only comes later.
    due = [max(0, number - AT_ONCE) / RATE for number in range(1, len(waited) + 1)]
    assert [at for at, earliest in zip(sorted(waited), due, strict=True) if at < earliest - 0.05] == []


# --- files where they are ---

SEPARATE: dict[str, Any] = {"separate_files": True, "sandbox": {"root": "data"}, "providers": {"test": {}}}
NOTES_TOOL = '''"""Tools."""


def here() -> bool:
    """Whether the notes are here."""
    from pathlib import Path

    return (Path(__file__).parent / "data/notes.txt").exists()
'''


@dataclass
class Machines:
    """One that has the files of a workshop, and one that has `workshop.yaml` alone."""

    place: Place
    elsewhere: Path

    def write_workshop(self, **keys: Any) -> None:
        """Write `workshop.yaml` for both."""
        store = {"blobs": {"url": (self.place.folder.parent / "store").as_uri()}}
        for folder in (self.place.folder, self.elsewhere):
            folder.mkdir(exist_ok=True)
            (folder / "workshop.yaml").write_text(yaml.safe_dump({**SEPARATE, **store, **keys}), encoding="utf-8")

    def serving(self, folder: Path, *roles: Role) -> Workers:
        """A worker service with these roles."""
        settings = ServiceSettings(task_queue=self.place.queue, only=frozenset(roles))
        return build_worker(self.place.client.temporal, folder, settings)

    @asynccontextmanager
    async def both_serve(self) -> AsyncGenerator[None]:
        """The files are served by one, and all else by the other."""
        async with self.serving(self.place.folder, "files"), self.serving(self.elsewhere, "workflows", "models"):
            yield
            await self.place.replay()


@pytest.fixture
def machines(server: WorkflowEnvironment, tmp_path: Path) -> Machines:
    """Two machines, nothing served yet."""
    queue, folder = f"test-{uuid4().hex}", tmp_path / "files"
    found = Machines(Place(folder, LlmDoClient(server.client, task_queue=queue), queue), tmp_path / "elsewhere")
    found.write_workshop()
    found.place.client = LlmDoClient(with_big_payloads(server.client, workshop_blobs(folder)), task_queue=queue)
    found.place.write("data/notes.txt", "seven decks")
    found.place.write("tools.py", NOTES_TOOL)
    return found


async def test_a_run_goes_on_where_the_files_are_not(machines: Machines) -> None:
    place = machines.place
    place.write("data/deck.pdf", "%PDF-1.7 a deck")
    child = scripted("Read it.")
    place.worker("reader", child)
    script = scripted(
        [call("read_file", path="/notes.txt"), call("here"), call("write_file", path="/new.txt", content="new")],
        call("reader", input="go", attachments=["/deck.pdf"]),
        "Done.",
    )
    toolsets: dict[str, Any] = {"filesystem": {}, "custom": {"here": {}}, "delegation": {"reader": {}}}
    place.worker("main", script, toolsets=toolsets)
    async with machines.both_serve():
        run = await place.start("main", mode="approve_all")
        assert (await place.client.result(run)).output == "Done."
        assert await queues_used(place) == {
            f"{place.queue}.models.test": {REQUEST_MODEL.name},
            f"{place.queue}.files": {
                "load_run",
                "load_worker",
                "read_file",
                "write_file",
                "call_python_tool",
                "snapshot_attachments",
            },
        }
    told = script.requests[1]
    assert "seven decks" in told.results("read_file")[0].text
    assert told.results("here")[0].text == "true"
    assert (place.folder / "data/new.txt").read_text() == "new"
    assert [one.data for one in child.requests[0].attachments] == [b"%PDF-1.7 a deck"]


async def test_a_run_that_began_beside_its_files_goes_on_where_they_are_not(machines: Machines) -> None:
    """The files got a queue of their own while it waited for a person."""
    place = machines.place
    script = scripted(
        call("read_file", path="/notes.txt"),
        call("write_file", path="/new.txt", content="new"),
        [call("read_file", path="/new.txt"), call("here"), call("list_files")],
        "Done.",
    )
    place.worker("main", script, toolsets={"filesystem": {}, "custom": {"here": {"pre_approved": True}}})
    machines.write_workshop(separate_files=False)
    async with machines.serving(place.folder, *ROLES):
        run = await place.start("main")
        await place.pending(run)
    machines.write_workshop()
    async with machines.both_serve():
        await place.decide(run)
        assert (await place.client.result(run)).output == "Done."
    told = script.requests[3]
    assert [told.results(tool)[-1].text for tool in ("here",)] == ["true"]
    assert "new" in told.results("read_file")[-1].text
    assert "notes.txt" in told.results("list_files")[0].text


async def queues_used(place: Place) -> dict[str, set[str]]:
    """The activities that were scheduled, by task queue."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for history in await place.histories():
        for event in history.events:
            if event.HasField("activity_task_scheduled_event_attributes"):
                scheduled = event.activity_task_scheduled_event_attributes
                found[scheduled.task_queue.name].add(scheduled.activity_type.name)
    return found


# --- nobody there ---


@pytest.mark.extension("maintenance")
async def test_a_run_says_which_queue_nobody_polls_and_goes_on_when_somebody_does(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_do_temporal.extensions.maintenance.doctor import examine_server

    monkeypatch.setattr(pending_work, "PATIENCE", timedelta(0))
    place = machines.place
    place.worker("main", scripted("Done."))
    run = await place.start("main")

    async def told() -> list[tuple[str, str]]:
        view = await place.client.view(run)
        found = await pending_work.note_troubles(place.client.temporal, view)
        shown = {"run": view.trouble, **{node.path: activity_of(node) for node in view.ordered}}
        return [(path, trouble.shown()) for path, trouble in found if trouble.shown() in shown[path]]

    async def waits_at(path: str, queue: str) -> bool:
        return await told() == [(path, f"nobody has asked for work at the task queue '{queue}' for two minutes")]

    await until(lambda: waits_at("run", place.queue), "the run waits for any service")
    async with machines.serving(machines.elsewhere, "workflows"):
        await until(lambda: waits_at("run", f"{place.queue}.files"), "it waits for a service for files")
        temporal = place.client.temporal
        where = Connection(temporal.service_client.config.target_host, temporal.namespace)
        findings = await examine_server(where, place.folder, place.queue)
        wrong = [one.message.split("'")[1] for one in findings if one.status == "error"]
        assert wrong == [f"{place.queue}.models.test", f"{place.queue}.files"]
        async with machines.serving(place.folder, "files"):
            told_of = f"{place.queue}.models.test"
            await until(lambda: waits_at("main", told_of), "its turn waits for a service for models")
        async with machines.serving(place.folder, "models"):
            assert (await place.client.result(run)).output == "Done."
            assert await told() == []
        await place.replay()


# --- turns ---

ITEMS = 10
MANY: dict[str, dict[str, Any]] = {
    "a batch, which comes after": {
        "worker": "main",
        "prompt": "",
        "batch": {
            "items": [{"name": f"n{item}", "prompt": f"item {item}"} for item in range(ITEMS)],
            "concurrency": ITEMS,
        },
    },
    "a run that delegates, which is as urgent": {"worker": "lead", "mode": "approve_all"},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("many", MANY.values(), ids=list(MANY))
async def test_a_question_has_its_turn_long_before_many_items_are_through(
    many: dict[str, Any], fair: WorkflowEnvironment, tmp_path: Path
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
        delegates = scripted([call("main", input=f"item {item}") for item in range(ITEMS)], "Done.")
        place.worker("lead", delegates, toolsets={"delegation": {"main": {}}})
        items = await place.start(**many)
        await until(lambda: at_least(waiting, ITEMS - 1), "all items but the first wait")
        question = await place.start("main", "the question")
        await until(lambda: at_least(waiting, ITEMS), "the question waits, too")
        may_answer.set()
        for run in (items, question):
            await place.client.result(run)
    assert len(order) == ITEMS + 1
    assert order.index("question") < ITEMS / 2


@pytest.mark.thorough
async def test_a_machine_that_is_full_goes_on_with_the_least(fair: WorkflowEnvironment, tmp_path: Path) -> None:
    begun = 0
    may_answer = asyncio.Event()

    async def answer(_messages: list[ModelMessage]) -> str:
        nonlocal begun
        begun += 1
        await may_answer.wait()
        return "Done."

    always_full = ResourceBasedTunerConfig(target_memory_usage=0.0001, target_cpu_usage=0.0001)
    async with served(fair, tmp_path, targets=always_full) as place:

        async def is_full() -> bool:
            waiting = (await activities_of(fair, place.queue)).stats.approximate_backlog_count
            return begun == LEAST_ACTIVITIES and waiting >= 2

        place.worker("main", scripted(answer))
        items = [{"name": f"n{item}", "prompt": "go"} for item in range(LEAST_ACTIVITIES + 2)]
        run = await place.start("main", prompt="", batch={"items": items, "concurrency": len(items)})
        await until(is_full, "all items but two have begun")
        may_answer.set()
        await place.client.result(run)


async def at_least(count: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await count() >= wanted


RULES = {"pre_approved": True}


@dataclass
class Service:
    """A workshop, and the process of its worker service."""

    place: Place
    running: list[BaseProcess] = field(default_factory=list[BaseProcess])

    async def begin(self, how: str) -> None:
        """Start the worker service; its tool blocks in this way."""
        told = self.place.queue, self.place.folder, self.place.variables, how
        self.running.append(await asyncio.to_thread(fork, [serve.__module__], serve, *told))

    async def start(self) -> tuple[str, str, str]:
        """The runs of the one that blocks, of a neighbour, and of a model's turn, all under way."""
        first = await self.place.start("writer")
        second = await self.place.start("neighbour")
        third = await self.place.start("blocker")
        await self.noted("blocked.txt", "waited.txt", "asked.txt")
        return third, second, first

    async def noted(self, *names: str) -> None:
        """Wait until these files are there."""
        while not all((self.place.folder / name).exists() for name in names):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)

    def count(self, name: str) -> int:
        """How many times something has happened."""
        return len((self.place.folder / name).read_text())

    @property
    def beaters(self) -> list[psutil.Process]:
        (process,) = self.running
        name = Path(beater.__file__).name
        below = psutil.Process(process.pid).children()
        return [one for one in below if any(word.endswith(name) for word in one.cmdline())]


@pytest_asyncio.fixture(loop_scope="session")
async def service(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Service]:
    queue, name = f"test-{uuid4().hex}", f"blocking_{uuid4().hex}"
    place = Place(tmp_path / "workshop", LlmDoClient(server.client, task_queue=queue), queue)
    place.write(f"{name}.py", TOOLSET)
    place.workshop()
    for worker in ("blocker", "neighbour"):
        place.worker(worker, f"test:{worker}", toolsets={f"{name}.Blocking": RULES})
    place.worker("writer", "test:writer")
    service = Service(place)
    try:
        yield service
    finally:
        for process in service.running:
            process.kill()
            await asyncio.to_thread(process.join)


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["thread", "loop", "expression"])
async def test_what_blocks_harms_no_call_and_no_turn(service: Service, how: str) -> None:
    """For longer than the server, and the SDK in its own process, wait for heartbeats."""
    await service.begin(how)
    runs = await service.start()
    results = [(await service.place.client.result(run)).output for run in runs]
    assert results == ["It is over.", "It was long.", "Written."]
    for run in runs:
        assert (await service.place.client.desk(run)).approvals == ()
    assert [service.count(name) for name in ("blocked.txt", "waited.txt", "asked.txt")] == [1, 1, 1]
    await service.place.replay()


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_service_that_is_lost_while_it_is_blocked_is_noticed(service: Service, number: int) -> None:
    await service.begin("expression")
    run, *_ = await service.start()
    (process,), (beside,) = service.running, service.beaters
    assert process.pid is not None
    os.kill(process.pid, number)
    if number == signal.SIGKILL:
        await asyncio.to_thread(process.join)
        assert await asyncio.to_thread(beside.wait) is None
        service.running.clear()
        await service.begin("expression")
    else:
        other = asyncio.to_thread(
            fork,
            [serve.__module__],
            serve,
            service.place.queue,
            service.place.folder,
            service.place.variables,
            "expression",
        )
        service.running.append(await other)
    (question,) = await service.place.pending(run)
    assert question.request.summary.startswith("may have happened: a call of block")
    assert service.count("blocked.txt") == 1


Wait = Callable[[WorkflowHandle[Any, Any], int], Awaitable[None]]
"""What an attempt does before it may begin, given its workflow and its number."""
POLL_SECONDS = 0.05


@workflow.defn(sandboxed=False)
class OneEffect:
    """Runs one activity until it is done."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            "effect",
            start_to_close_timeout=timedelta(minutes=1),
            heartbeat_timeout=3 * LATE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
        )


class Busy(Interceptor):
    """Lets each attempt wait, as a process does that has no time for it."""

    def __init__(self, wait: Callable[[int], Awaitable[None]]) -> None:
        self.wait = wait

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        return _Waiting(next, self.wait)


class _Waiting(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, wait: Callable[[int], Awaitable[None]]) -> None:  # noqa: A002
        super().__init__(next)
        self.wait = wait

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        await self.wait(activity.info().attempt)
        return await self.next.execute_activity(input)


async def begun(client: Client, wait: Wait) -> list[tuple[int, bool]]:
    """The attempts that really began, and whether the server had a heartbeat of each by then."""
    found: list[tuple[int, bool]] = []
    name = f"late-{uuid4().hex}"
    run = client.get_workflow_handle(name)

    @activity.defn(name="effect")
    async def effect() -> None:
        found.append((activity.info().attempt, (await pending(run)).HasField("last_heartbeat_time")))

    interceptors = [Busy(lambda attempt: wait(run, attempt)), HeartbeatInterceptor(client)]
    worker = Worker(client, task_queue=name, workflows=[OneEffect], activities=[effect], interceptors=interceptors)
    async with worker:
        await client.start_workflow(OneEffect.run, id=name, task_queue=name)
        with suppress(WorkflowFailureError):
            await run.result()
    return found


async def pending(run: WorkflowHandle[Any, Any]) -> PendingActivityInfo:
    """What the server knows of the one activity."""
    (found,) = (await run.describe()).raw_description.pending_activities
    return found


async def late(run: WorkflowHandle[Any, Any]) -> None:
    """Wait until it is late for the attempt that is under way."""
    started = (await pending(run)).last_started_time.ToDatetime(UTC)
    left = started + LATE - datetime.now(UTC)
    await asyncio.sleep(left.total_seconds() + POLL_SECONDS)


async def test_what_was_cancelled_before_it_begins_is_not_begun(server: WorkflowEnvironment) -> None:
    """The attempt is late, and asks once the server knows of the cancellation."""

    async def wait(run: WorkflowHandle[Any, Any], _: int) -> None:
        await late(run)
        await run.cancel()
        while (await pending(run)).state != PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)

    assert await begun(server.client, wait) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hours", [0, -1, 1], ids=["right", "behind", "ahead"])
async def test_what_the_server_has_given_up_is_not_begun(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """The first attempt gets its turn when the second one is under way, whatever the machine's clock says."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr(heartbeats, "datetime", Clock)

    async def wait(run: WorkflowHandle[Any, Any], attempt: int) -> None:
        while attempt == 1 and (await pending(run)).attempt == 1:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(POLL_SECONDS)

    assert 1 not in [attempt for attempt, _ in await begun(server.client, wait)]


async def test_what_begins_late_and_cannot_ask_the_server_is_not_begun(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt comes late and hears nothing; the server has it done again."""
    asked: list[str] = []
    tell = AsyncActivityHandle.heartbeat

    async def heartbeat(self: AsyncActivityHandle, **options: Any) -> None:
        asked.append("heartbeat")
        if len(asked) == 1:
            raise RPCError("silence", RPCStatusCode.UNAVAILABLE, b"")
        await tell(self, **options)

    monkeypatch.setattr(AsyncActivityHandle, "heartbeat", heartbeat)

    async def wait(run: WorkflowHandle[Any, Any], attempt: int) -> None:
        if attempt == 1:
            await late(run)

    found = [attempt for attempt, _ in await begun(server.client, wait)]
    assert asked
    assert found
    assert 1 not in found


async def test_what_begins_late_tells_the_server_first(server: WorkflowEnvironment) -> None:
    """Its time for the next heartbeat is counted from there."""

    found = await begun(server.client, lambda run, _: late(run))
    assert found
    assert all(has_told for _, has_told in found)
