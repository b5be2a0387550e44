"""A tool blocks its thread, or the whole interpreter, of the worker service: that is nobody else's trouble."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.activities.runtime import beater
from llm_do_temporal.client import LlmDoClient
from tests.support.people.forked_program import fork
from tests.support.runs.place import Place
from tests.support.servers.blocked_service import TOOLSET, serve

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
        """The processes beside the service."""
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
