"""What a measurement needs, fresh for each: the model, the Temporal server, the contenders and their processes."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.bare import Bare
from benchmarks.contenders.contender import POLL_SECONDS, Contender, Place
from benchmarks.contenders.dbos_peer import Dbos
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured, Service, python, read_line, spawn
from benchmarks.servers import Server, on_cluster, start_server

ALL: tuple[type[Contender], ...] = (Bare, Dbos, Ours)
ON_TEMPORAL: tuple[type[Contender], ...] = (Bare, Ours)


@dataclass(frozen=True)
class Asked:
    """A request that the model got: which turn of which job, and when (seconds since the epoch)."""

    job: str
    turn: int
    at: float


@dataclass(frozen=True)
class Stage:
    """The contenders of one measurement, each with its process running."""

    contenders: Sequence[Contender]
    model_url: str
    effects: Path
    server: Server

    @property
    def ours(self) -> Ours:
        """The one that is measured against the others."""
        (found,) = [one for one in self.contenders if isinstance(one, Ours)]
        return found

    async def asked(self, jobs: str) -> list[Asked]:
        """The requests of all jobs whose name begins like this, in order of arrival."""
        return await asyncio.to_thread(self._asked, jobs)

    async def wait_asked(self, job: str, turn: int, times: int = 1, timeout: float = 600) -> Asked:
        """Wait until this turn was asked so often, and return the last. Raises NotMeasured after `timeout` s."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = [one for one in await self.asked(job) if one.job == job and one.turn == turn]
            if len(found) >= times:
                return found[times - 1]
            await asyncio.sleep(POLL_SECONDS)
        raise NotMeasured(f"turn {turn} of '{job}' was not asked {times} times within {timeout:g} s")

    def _asked(self, jobs: str) -> list[Asked]:
        with urllib.request.urlopen(f"{self.model_url}/log?jobs={jobs}") as answer:
            log: dict[str, list[tuple[int, float]]] = json.load(answer)
        found = [Asked(job, turn, at) for job, asked in log.items() for turn, at in asked]
        return sorted(found, key=lambda one: one.at)


@asynccontextmanager
async def stage(kinds: Sequence[type[Contender]] = ALL, *, in_memory: bool = False) -> AsyncGenerator[Stage]:
    """Start everything; kill everything at the end. Each contender has run once, so nothing is loaded any more.

    A development server's database is in memory on demand.

    On the cluster only those that use it are there: DBOS would not notice it.
    """
    if on_cluster():
        kinds = [kind for kind in kinds if kind in ON_TEMPORAL]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        model = _kept(stack, spawn("model", python("benchmarks.contenders.model_server"), folder, heard=True))
        url = await asyncio.to_thread(read_line, model)
        server = await start_server(stack, folder, in_memory=in_memory)
        contenders = [_make(kind, folder, url, server) for kind in kinds]
        made = Stage(contenders, url, folder / "effects.txt", server)
        for one in contenders:
            stack.callback(one.kill)
        await asyncio.gather(*(_warm(one) for one in contenders))
        yield made


async def _warm(one: Contender) -> None:
    await one.serve()
    await one.run("agent", Plan(job=f"{one.name}-first", turns=2))


def _make(kind: type[Contender], folder: Path, url: str, server: Server) -> Contender:
    home = folder / kind.name
    home.mkdir()
    return kind(Place(home, url, server.address, server.temporal, folder / "effects.txt"))


def _kept(stack: ExitStack, service: Service) -> Service:
    stack.callback(service.kill)
    return service
