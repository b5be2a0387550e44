"""Site of a measurement: a cluster with so many worker services, the scripted model, and clients of all doors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.contenders.ours import command, write_workshop
from benchmarks.contenders.tools import effects
from benchmarks.processes import MB, NotMeasured, python, read_line, spawn
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connections import Connection, connect
from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, RUN_WORKFLOW
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.postgresql import USER, find_programs
from tests.cluster.state import Kept, default_folder

IDLE_SHARE = 0.1
"""Of a processor: worker services that use less together have settled."""
SETTLE_SECONDS = 60
PATIENCE_SECONDS = 180
POLL_SECONDS = 0.01
_VISIBILITY = "temporal_visibility"


@dataclass
class Site:
    """The cluster of one measurement, with a client that has its keys."""

    cluster: Cluster
    client: LlmDoClient
    effects: Path
    variables: Mapping[str, str]
    """What our commands are told, so that they reach the cluster."""
    services: Sequence[str] = field(default_factory=list[str])
    """Names of the worker services."""

    @property
    def page(self) -> str:
        """Address of the page."""
        return self.cluster.running.addresses["page"]

    def run_command(self, *words: str) -> float:
        """Run a command of ours; seconds from its start to its end. Raises NotMeasured where it fails."""
        began = time.monotonic()
        done = subprocess.run(
            command(*words), env=dict(self.variables), cwd=self.cluster.workshop, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise NotMeasured(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.decode().strip()}")
        return time.monotonic() - began

    async def count(self, condition: str) -> int:
        """Return the number of runs that the server lists under this condition."""
        query = f"WorkflowType = '{RUN_WORKFLOW}' AND {condition}"
        return (await self.client.temporal.count_workflows(query)).count

    async def await_waiting(self, runs: int) -> None:
        """Wait until so many runs wait for a person. Raises NotMeasured once none has followed for three minutes."""
        condition = f"ExecutionStatus = 'Running' AND {PENDING_ATTRIBUTE} > 0"
        await self.await_count(condition, runs)

    async def await_count(self, condition: str, runs: int) -> None:
        """Wait until the server lists so many runs. Raises NotMeasured once none has followed for three minutes."""
        found, changed = -1, time.monotonic()
        while found < runs:
            now = await self.count(condition)
            if now != found:
                found, changed = now, time.monotonic()
            if time.monotonic() - changed > PATIENCE_SECONDS:
                raise NotMeasured(f"{found} of {runs} runs are so, and no other for {PATIENCE_SECONDS} s: {condition}")
            await asyncio.sleep(0.2)

    async def decide(self, run: str) -> float:
        """Approve what the run waits for; return the time at which its tool starts, in seconds since the epoch."""
        await self.client.decide(run, Decision.model_validate({"decision": "approve", "by": "bench"}))
        deadline = time.time() + PATIENCE_SECONDS
        while not (started := effects("guarded", f"{run}.0.0", self.effects)):
            if time.time() > deadline:
                raise NotMeasured(f"the tool of '{run}' did not start within {PATIENCE_SECONDS} s of the decision")
            await asyncio.sleep(POLL_SECONDS)
        return started[0]

    async def settle(self) -> None:
        """Wait until the worker services have little to do, for a minute at most: each counts what waits at times."""
        for _ in range(SETTLE_SECONDS):
            before = self._service_seconds()
            await asyncio.sleep(1)
            if self._service_seconds() - before < IDLE_SHARE:
                return

    def memory(self) -> dict[str, float]:
        """Memory of each process in MB with everything that it has started; shared pages are divided by their users."""
        return {name: self._memory_mb(name) for name, one in self.cluster.processes.items() if one.pid is not None}

    def restart_services(self) -> None:
        """SIGKILL all worker services at once, and start them again; does not wait for them."""
        processes = [self.cluster.processes[name] for name in self.services]
        for one in processes:
            one.kill()
        for one in processes:
            one.start()

    def await_services(self) -> None:
        """Wait until all worker services say that they are ready."""
        for name in self.services:
            self.cluster.processes[name].await_well()

    def sql(self, statement: str) -> str:
        """Run a statement in the database of visibility and return what it prints. Raises NotMeasured."""
        cluster = self.cluster
        words = ["--host=127.0.0.1", f"--port={cluster.services.ports['sql']}", f"--username={USER}"]
        words += [f"--dbname={_VISIBILITY}", "--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        password = Kept.of(cluster.place, ()).passwords["POSTGRES_PASSWORD"]
        done = subprocess.run(
            [find_programs() / "psql", *words, f"--command={statement}"],
            env={"PGPASSWORD": password},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NotMeasured(f"PostgreSQL refuses: {done.stderr.strip()}")
        return done.stdout.strip()

    def database_mb(self) -> float:
        """Return the size of all databases in MB, with indexes and visibility."""
        self.sql("CHECKPOINT")
        return float(self.sql("SELECT sum(pg_database_size(datname)) FROM pg_database")) / MB

    def _service_seconds(self) -> float:
        times = [psutil.Process(self.cluster.processes[name].pid).cpu_times() for name in self.services]
        return sum(one.user + one.system for one in times)

    def _memory_mb(self, name: str) -> float:
        top = psutil.Process(self.cluster.processes[name].pid)
        total = 0
        for one in (top, *top.children(recursive=True)):
            try:
                total += one.memory_full_info().pss
            except psutil.NoSuchProcess:
                continue
        return total / MB


@asynccontextmanager
async def site(services: int) -> AsyncGenerator[Site]:
    """Start the cluster with so many worker services and what it needs; take all of it away at the end."""
    with ExitStack() as stack:
        folder = _make_folder(stack)
        model = spawn("model", python("benchmarks.contenders.model_server"), folder, heard=True)
        stack.callback(model.kill)
        write_workshop(folder / "workshop", await asyncio.to_thread(read_line, model))
        names = [f"worker-{number}" for number in range(1, services + 1)]
        told = {"BENCH_EFFECTS": str(folder / "effects.txt"), "OPENAI_API_KEY": "none"}
        cluster = Cluster(folder / "cluster", folder / "workshop", services, variables=dict.fromkeys(names, told))
        try:
            await asyncio.to_thread(cluster.up)
        except ClusterError as error:
            raise NotMeasured(f"there is no cluster: {error}") from error
        stack.callback(cluster.down)
        told = cluster.services.client_variables()
        os.environ.update(told)  # this process is a client of its own
        temporal = await connect(Connection(), folder / "workshop")
        variables = {**_own("PATH", "HOME", "LANG"), **told}
        yield Site(cluster, LlmDoClient(temporal), folder / "effects.txt", variables, names)


def _make_folder(stack: ExitStack) -> Path:
    made = tempfile.TemporaryDirectory(dir=default_folder().parent, prefix="scale-", ignore_cleanup_errors=True)
    folder = Path(stack.enter_context(made))
    # PostgreSQL is another account where this one is root, and has to get to its own files.
    folder.chmod(0o711)
    return folder


def _own(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
