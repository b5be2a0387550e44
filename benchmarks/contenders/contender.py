"""What a measurement asks of each contender, and what the two on Temporal have in common."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured, Service

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Place:
    """Where a contender lives: a folder of its own, the model, the Temporal server, the file of effects."""

    folder: Path
    model_url: str
    address: str
    temporal: Client
    effects: Path

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its process."""
        return {"BENCH_MODEL_URL": self.model_url, "BENCH_EFFECTS": str(self.effects)}


class Contender(ABC):
    """One way to run the same agents. Its service is one process, which may be killed and started again."""

    name: str

    def __init__(self, place: Place) -> None:
        self.place = place
        self.service: Service | None = None

    @property
    def running(self) -> Service:
        """Its process. Raises NotMeasured when it has ended."""
        if self.service is None:
            raise NotMeasured(f"the service of '{self.name}' was not started")
        self.service.check()
        return self.service

    async def serve(self) -> None:
        """Start its process."""
        self.service = await asyncio.to_thread(self.spawn)

    @abstractmethod
    def spawn(self) -> Service:
        """Start its process and wait until that is ready, as far as that can be seen."""

    @abstractmethod
    async def start(self, kind: str, plan: Plan) -> None:
        """Start a run, whose id is the plan's job."""

    @abstractmethod
    async def finish(self, run: str) -> int:
        """Wait for the run's end; returns how many model requests it says it made. Raises NotMeasured if it failed."""

    @abstractmethod
    async def wait_parked(self, runs: Sequence[str]) -> None:
        """Wait until every one of these waits for a person."""

    @abstractmethod
    async def decide(self, run: str) -> None:
        """Approve what waits."""

    async def history_bytes(self, run: str) -> int:
        """The histories of a run that has ended."""
        size, _ = await history_size(self.place.temporal, run)
        return size

    def stored_bytes(self) -> int:
        """All that it keeps beside histories."""
        return 0

    @abstractmethod
    async def drop(self, run: str) -> None:
        """Give up a run that will not end by itself."""

    async def run(self, kind: str, plan: Plan) -> int:
        """Start a run and wait for its end."""
        await self.start(kind, plan)
        return await self.finish(plan.job)

    def kill(self) -> None:
        """SIGKILL its process."""
        if self.service is not None:
            self.service.kill()


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until it holds. Raises NotMeasured when it does not for ten minutes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await _answered(holds):
        if time.monotonic() > deadline:
            raise NotMeasured(f"never happened: {what}")
        await asyncio.sleep(POLL_SECONDS)


async def _answered(holds: Callable[[], Awaitable[bool]]) -> bool:
    """A service that is busy does not answer in time, which is no answer yet."""
    try:
        return await holds()
    except RPCError:
        return False


async def executions(temporal: Client, run: str) -> list[tuple[str, str]]:
    """Workflow id and run id of a run, of all it started and continued as. Waits until the server lists them closed."""
    query = f"WorkflowId = '{run}' OR WorkflowId STARTS_WITH '{run}/'"
    found: list[WorkflowExecution] = []

    async def closed() -> bool:
        found[:] = [one async for one in temporal.list_workflows(query)]
        return bool(found) and not any(one.close_time is None for one in found)

    await until(closed, f"the server lists '{run}' as closed")
    return [(one.id, one.run_id) for one in found]


async def history_size(temporal: Client, run: str) -> tuple[int, int]:
    """Bytes and events of the histories of a run that has ended."""
    size = events = 0
    for workflow, execution in await executions(temporal, run):
        about = (await temporal.get_workflow_handle(workflow, run_id=execution).describe()).raw_description
        size += about.workflow_execution_info.history_size_bytes
        events += about.workflow_execution_info.history_length
    return size, events


async def terminate(temporal: Client, run: str) -> None:
    """End a run from outside; one that has ended is fine."""
    try:
        await temporal.get_workflow_handle(run).terminate("given up")
    except RPCError:
        return
