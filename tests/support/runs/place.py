"""A workshop with a worker service on a real server, and a replay of all histories made there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from pydantic_ai.models import Model
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import Approval, Decision
from llm_do_temporal.messages.base import DECIDE_SIGNAL, RUN_WORKFLOW
from llm_do_temporal.messages.runs import RunResult, StartRunInput
from llm_do_temporal.service.build import ServiceSettings, build_replayer, build_worker
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import register_model
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.histories import record_histories
from tests.support.servers.session import connection_variables

NO_CACHE = os.environ.get("LLM_DO_TEST_NO_CACHE") == "1"
"""Whether every workflow task replays its history from the start."""


@dataclass
class Place:
    """A workshop with a worker service of its own, and a client for it."""

    folder: Path
    client: LlmDoClient
    queue: str
    started: list[str] = field(default_factory=list[str])

    @property
    def variables(self) -> dict[str, str]:
        """What a program is told to reach the same server."""
        return connection_variables(self.client.temporal)

    def write(self, name: str, text: str) -> Path:
        """Put a file into the workshop."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def workshop(self, **keys: Any) -> None:
        """Write `workshop.yaml` anew; the sandbox stays at the workshop's root unless it is given."""
        text = yaml.safe_dump({"name": "test", "sandbox": {"root": "."}, **keys})
        (self.folder / "workshop.yaml").write_text(text, encoding="utf-8")

    def worker(self, name: str, model: Model | str | None = None, instructions: str = "Do it.", **keys: Any) -> None:
        """Write a worker, played by `model` where one is given."""
        if model is not None:
            keys["model"] = model if isinstance(model, str) else self.script(name, model)
        front = yaml.safe_dump(keys) if keys else ""
        self.write(f"workers/{name}.worker", f"---\n{front}---\n{instructions}\n")

    def script(self, name: str, model: Model) -> str:
        """Register a model under a name of this test's own, and return its id."""
        return register_model(f"{self.folder.parent.name}-{name}", model)

    async def start(self, worker: str, prompt: str = "go", *, run: str | None = None, **more: object) -> str:
        request = StartRunInput.model_validate({"worker": worker, "prompt": prompt, **more})
        self.started.append(await self.client.start(request, run=run))
        return self.started[-1]

    async def start_raw(self, *payload: Any) -> str:
        """Start a run with whatever payload, as anybody with a Temporal client can."""
        run = f"raw-{uuid4().hex}"
        await self.client.temporal.start_workflow(RUN_WORKFLOW, args=payload, id=run, task_queue=self.queue)
        self.started.append(run)
        return run

    async def run(self, worker: str, prompt: str = "go", **more: Any) -> RunResult:
        """Start a run and wait for its result."""
        return await self.client.result(await self.start(worker, prompt, **more))

    async def outcome(self, worker: str, **more: Any) -> tuple[Any, str]:
        """Run a worker with every approval given; return its output, and its error or an empty text."""
        try:
            return (await self.run(worker, mode="approve_all", **more)).output, ""
        except LlmDoError as error:
            return None, str(error)

    async def pending(self, run: str, count: int = 1) -> list[Question]:
        """Wait until `count` approvals are pending, and return them."""
        return await self._pending(run, lambda found: len(found) >= count)

    async def pending_is(self, run: str, *ids: str) -> None:
        """Wait until exactly these approvals are pending."""
        await self._pending(run, lambda found: {one.id for one in found} == set(ids))

    async def _pending(self, run: str, wanted: Callable[[list[Question]], bool]) -> list[Question]:
        follower, found = self.client.follow(run), list[Question]()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                async for event in follower.events():
                    # The follower tells when to look; it may still be reading how it was, so it is not asked how it is.
                    if event.type == "desk.changed":
                        found = await self.client.approvals(run)
                        if wanted(found):
                            return sorted(found, key=lambda one: int(one.id[1:]))
        except TimeoutError as error:
            asked = [f"{one.id} {one.request.summary}" for one in found]
            raise AssertionError(f"these approvals never came; at last there were {asked}") from error
        raise AssertionError(f"the run ended ({follower.view.status}: {follower.view.error}) without these approvals")

    async def completed(self, run: str, *wanted: str) -> None:
        """Wait until the activities with these summaries have completed somewhere in the run."""
        missing = set(wanted)
        async for event in self.client.follow(run).events():
            if event.type == "activity.completed":
                missing.discard(event.data["what"])
            if not missing:
                return
        raise AssertionError(f"the run ended without {missing}")

    async def decide(self, run: str, decision: str = "approve", **more: object) -> Approval:
        """Take a decision by update."""
        taken = await self.client.decide(run, Decision.model_validate({"decision": decision, **more}))
        assert taken is not None
        return taken

    async def signal(self, run: str, *payload: Any) -> None:
        """Send whatever payload as the signal `decide`."""
        await self.client.temporal.get_workflow_handle(run).signal(DECIDE_SIGNAL, args=payload)

    async def histories(self) -> list[WorkflowHistory]:
        """The histories of everything that was started here."""
        found: list[WorkflowHistory] = []
        for run in self.started:
            view = await self.client.view(run)
            for workflow_id in dict.fromkeys((run, *view.nodes)):
                found += await self.chain(workflow_id)
        return found

    async def chain(self, workflow_id: str) -> list[WorkflowHistory]:
        """The histories of all runs of a workflow, the newest first."""
        temporal = self.client.temporal
        found = [await temporal.get_workflow_handle(workflow_id).fetch_history()]
        while before := found[-1].events[0].workflow_execution_started_event_attributes.continued_execution_run_id:
            found.append(await temporal.get_workflow_handle(workflow_id, run_id=before).fetch_history())
        return found

    async def replay(self) -> None:
        """Replay the histories of everything that was started here, and record them where that is asked for."""
        histories = await self.histories()
        for history in histories:
            await _replay(history, self.folder)
        record_histories(histories)


@asynccontextmanager
async def served(server: WorkflowEnvironment, tmp_path: Path, **more: Any) -> AsyncGenerator[Place]:
    """A place on a server; `more` are settings of its worker service."""
    folder = tmp_path / "workshop"
    folder.mkdir()
    (folder / "workshop.yaml").write_text("name: test\nsandbox: {root: .}\n", encoding="utf-8")
    queue, cached = f"test-{uuid4().hex}", 0 if NO_CACHE else 100
    settings = ServiceSettings(task_queue=queue, max_cached_workflows=cached, **more)
    async with build_worker(server.client, folder, settings):
        client = with_big_payloads(server.client, workshop_blobs(folder))
        place = Place(folder, LlmDoClient(client, task_queue=settings.task_queue), settings.task_queue)
        yield place
        await place.replay()


async def _replay(history: WorkflowHistory, workshop: Path) -> None:
    try:
        await build_replayer(workshop).replay_workflow(history)
    except Exception as error:
        events = [f"{event.event_id} {EventType.Name(event.event_type)}" for event in history.events]
        error.add_note(f"the history of {history.workflow_id}: {', '.join(events)}")
        raise
