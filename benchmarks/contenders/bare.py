"""The bare peer: a plain durable agent on the same Temporal server, in a worker process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.client import WorkflowFailureError

from benchmarks.contenders.contender import Contender, terminate, until
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured, Service, python, spawn

QUEUE = "bare"
_WORKFLOW = "BareRun"


class Bare(Contender):
    """Pydantic AI with `TemporalDurability`."""

    name = "bare"

    def spawn(self) -> Service:
        """Start its worker."""
        command = python("benchmarks.contenders.bare_service", self.place.address, QUEUE)
        return spawn("bare", command, self.place.folder, self.place.variables)

    async def start(self, kind: str, plan: Plan) -> None:
        """Start a run."""
        await self.place.temporal.start_workflow(_WORKFLOW, args=[kind, plan.prompt()], id=plan.job, task_queue=QUEUE)

    async def finish(self, run: str) -> int:
        """Wait for its end."""
        try:
            return int(await self.place.temporal.get_workflow_handle(run).result())
        except WorkflowFailureError as error:
            raise NotMeasured(f"'{run}' of the bare peer failed: {error.cause}") from error

    async def wait_parked(self, runs: Sequence[str]) -> None:
        """Ask each by a query."""
        for run in runs:
            handle = self.place.temporal.get_workflow_handle(run)
            await until(lambda handle=handle: handle.query("parked"), f"'{run}' is parked")

    async def decide(self, run: str) -> None:
        """Send the signal."""
        await self.place.temporal.get_workflow_handle(run).signal("decide")

    async def drop(self, run: str) -> None:
        """Terminate the run."""
        await terminate(self.place.temporal, run)
