"""A command or a function runs while its worker service is killed: nobody knows how far it came, and a person decides.

What a function has asked of another worker is asked once, whoever runs the function again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.errors import RunCancelled
from tests.support.people.forked_program import fork
from tests.support.runs.place import Place
from tests.support.servers.job_service import serve

JOB = "echo ran >> ran.txt\ntest $(grep -c ran ran.txt) -ge 2 || exec sleep 86397\n"
"""Does something that shows, and then, the first time, is busy for longer than anybody waits."""
ASK = """
from pathlib import Path

from llm_do_temporal import call_worker
from llm_do_temporal.tools import idempotent


{mark}
def ask(question: str) -> str:
    with (Path(__file__).parent / "files/ran.txt").open("a") as ran:
        ran.write("ran\\n")
    said = [call_worker("sage", question).output for _ in range(2)]
    return " ".join(said)
"""
"""Asks somebody the same thing twice, one after the other."""


@dataclass
class Services:
    """A workshop whose worker service is a process that tests kill."""

    place: Place
    running: list[BaseProcess] = field(default_factory=list[BaseProcess])

    async def begin(self) -> None:
        """Start a worker service."""
        told = self.place.queue, self.place.folder, self.place.variables
        self.running.append(await asyncio.to_thread(fork, [serve.__module__], serve, *told))

    async def kill(self) -> None:
        """SIGKILL the worker service."""
        process = self.running.pop()
        process.kill()
        await asyncio.to_thread(process.join)

    @property
    def effects(self) -> str:
        """What the command has done so far."""
        ran = self.place.folder / "files/ran.txt"
        return ran.read_text() if ran.exists() else ""

    async def lose_command(self, mode: str | None = None) -> str:
        """A run whose worker service was killed during its command, and which another one has taken over."""
        await self.begin()
        run = await self.place.start("runner", mode=mode)
        await until(lambda: self.effects == "ran\n")
        await self.kill()
        await until(lambda: not busy())
        await self.begin()
        return run


def busy() -> bool:
    return any(one.info["cmdline"] == ["sleep", "86397"] for one in psutil.process_iter(["cmdline"]))


async def until(found: Callable[[], bool]) -> None:
    while not found():  # noqa: ASYNC110 - a process of somebody else's sets no event
        await asyncio.sleep(0.02)


@pytest_asyncio.fixture(loop_scope="session")
async def services(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Services]:
    queue = f"test-{uuid4().hex}"
    place = Place(tmp_path / "workshop", LlmDoClient(server.client, task_queue=queue), queue)
    place.write("files/job.sh", JOB)
    place.workshop(sandbox={"root": "files"})
    rules = [{"pattern": "sh job.sh", "approval_required": False}]
    place.worker("runner", "test:job", toolsets={"shell": {"rules": rules}})
    services = Services(place)
    try:
        yield services
    finally:
        while services.running:
            await services.kill()
    await place.replay()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("answer", ["approve", "reject"])
async def test_a_person_is_asked_whether_to_run_it_again(services: Services, answer: str) -> None:
    place = services.place
    run = await services.lose_command()
    (question,) = await place.pending(run)
    assert services.effects == "ran\n"
    assert question.request.summary == "may have happened: shell sh job.sh"
    assert question.request.args_schema is None
    (use,) = question.request.capabilities
    assert (use.name, use.payload) == ("effect.repeat", {"argv": ["sh", "job.sh"], "cwd": "/"})
    await place.decide(run, answer, note="it is half done", by="ada")
    told = (await place.client.result(run)).output
    if answer == "approve":
        assert services.effects == "ran\nran\n"
        assert json.loads(told)["exit_code"] == 0
    else:
        assert services.effects == "ran\n"
        assert "the outcome of 'shell sh job.sh' is unknown: the worker service was lost while it ran" in told
        assert "(ada decided so: it is half done)" in told


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["approve_all", "strict"])
async def test_where_nobody_is_asked_the_model_is_told_and_nothing_runs_again(services: Services, mode: str) -> None:
    run = await services.lose_command(mode=mode)
    told = (await services.place.client.result(run)).output
    assert "because nobody can be asked about it here" in told
    assert services.effects == "ran\n"
    assert (await services.place.client.desk(run)).approvals == ()


@pytest.mark.thorough
async def test_cancelling_the_run_is_the_third_answer(services: Services) -> None:
    run = await services.lose_command()
    await services.place.pending(run)
    await services.place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await services.place.client.result(run)
    assert services.effects == "ran\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mark", ["@idempotent", ""])
async def test_what_a_function_asks_of_a_worker_outlives_its_service(services: Services, mark: str) -> None:
    place = services.place
    place.write("tools.py", ASK.format(mark=mark))
    place.worker("asker", "test:asker", toolsets={"custom": {"ask": {"pre_approved": True}}})
    place.worker("sage", "test:sage")
    await services.begin()
    run = await place.start("asker")
    await place.pending_is(run, "a1")
    await place.decide(run, id="a1")
    await place.pending_is(run, "a2")
    before = services.effects
    await services.kill()
    await services.begin()
    if not mark:
        (_, again) = await place.pending(run, 2)
        assert again.request.summary.startswith("may have happened: ask")
        assert services.effects == before
        await place.decide(run, id=again.id)
    await until(lambda: services.effects == before + "ran\n")
    await place.pending_is(run, "a2")
    await place.decide(run, id="a2")
    result = await place.client.result(run)
    assert result.output == "Forty-two. Forty-two."
    # Both questions were asked once, and each call was made once.
    asked = [one.request.tool for one in (await place.client.desk(run)).approvals]
    assert asked == ["worker_call", "worker_call"] if mark else ["worker_call", "worker_call", "ask"]
    assert [node.path for node in (await place.client.view(run)).ordered] == ["main", "main/sage-1", "main/sage-2"]
    assert result.usage.requests == 4
