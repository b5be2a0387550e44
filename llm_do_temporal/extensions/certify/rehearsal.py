"""Rehearsal of a run or an experiment from its start to its end: at a chosen event, a process is killed.

The stage is a server of its own, with copies of the workshop and worker services to kill. `Rehearsal` owns the blow and
the reading of the histories; what is started, and what is left of it, is known to the subclasses. Every rehearsal of an
experiment has a name of its own: ids of experiments follow from it, and none takes results over from another.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.embedded.host import await_server, server_command, service_command, spawn
from llm_do_temporal.client.embedded.server import any_free_port
from llm_do_temporal.client.history.events import ENDS
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.errors import ConnectionFailed, LlmDoError
from llm_do_temporal.extensions.certify.evidence import Evidence, Histories, Point, gather
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.base import DECIDE_SIGNAL, ENTRY_PATH
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME
from llm_do_temporal.policy.values import REPEAT
from llm_do_temporal.storage.blobs import blob_folder
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs

KillKind = Literal["service", "server", "two", "freeze"]
"""Process that is struck: the only worker service, the server, one of two worker services, or a service that is stopped
(SIGSTOP), replaced, and woken when the run is over."""
KINDS: tuple[KillKind, ...] = get_args(KillKind)
_NOT_COPIED = (STATE_FOLDER, ".git", ".venv", "__pycache__")
_BY = "certify"
_RETRY_SECONDS = 0.1
_AWAY = (RPCError, ConnectionFailed)
"""Errors that are raised while the server is away."""


class Server:
    """A Temporal server that can be killed and comes back with its database."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{any_free_port()}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Client:
        """Start it and return a client. Raises ConnectionFailed."""
        return await await_server(self._begin(), self.address, self._folder / "temporal.db", self._log)

    def strike(self) -> None:
        """SIGKILL it and start it again at once; it answers a little later."""
        self.close()
        self._begin()

    def close(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _begin(self) -> subprocess.Popen[bytes]:
        self._process = spawn(server_command(self.address, self._folder / "temporal.db", None), self._log, private=True)
        return self._process


class Lane:
    """A copy of the workshop in which one run after the other is rehearsed, with the services that serve it."""

    def __init__(self, original: Path, folder: Path, server: Server, client: Client, kind: KillKind) -> None:
        """`folder` is where the copy goes; its name is the task queue, so it is unlike all others."""
        self.workshop = folder / original.name
        big = with_big_payloads(client, workshop_blobs(self.workshop))
        self.client = LlmDoClient(big, task_queue=folder.name)
        self.kind: KillKind = kind
        self._original, self._folder, self._server = original, folder, server
        self._services: list[subprocess.Popen[bytes]] = []
        self._frozen: subprocess.Popen[bytes] | None = None
        folder.mkdir()

    def reset(self, blobs: Path | None = None) -> None:
        """Make the copy equal to the workshop again, with these blobs, and see that enough services run."""
        if self.workshop.exists():
            shutil.rmtree(self.workshop)
        shutil.copytree(
            self._original,
            self.workshop,
            symlinks=True,
            ignore=shutil.ignore_patterns(*_NOT_COPIED),
            dirs_exist_ok=True,
        )
        if blobs is not None:
            shutil.copytree(blobs, blob_folder(self.workshop), dirs_exist_ok=True)
        while len(self._services) < (2 if self.kind == "two" else 1):
            self._begin()

    def strike(self) -> int | None:
        """Kill or stop what this lane is about; returns the process id of the service that is gone."""
        if self.kind == "server":
            self._server.strike()
            return None
        struck = self._services.pop(0)
        if self.kind == "freeze":
            self._frozen = struck
            struck.send_signal(signal.SIGSTOP)
        else:
            struck.kill()
            struck.wait()
        if self.kind != "two":
            self._begin()
        return struck.pid

    async def wake(self) -> None:
        """Let a service that was stopped go on, finish what it still holds, and leave."""
        if self._frozen is not None:
            self._frozen.send_signal(signal.SIGCONT)
            self._frozen.terminate()
            await asyncio.to_thread(self._frozen.wait)
            self._frozen = None

    def files(self) -> dict[str, str]:
        """The digest of every file of the copy, by its path."""
        return digests(self.workshop)

    def close(self) -> None:
        """SIGKILL its services."""
        for service in (*self._services, *([self._frozen] if self._frozen else [])):
            service.kill()
            service.wait()
        self._services, self._frozen = [], None

    def _begin(self) -> None:
        command = service_command(self.workshop, self._server.address)
        variables = {"LLM_DO_TASK_QUEUE": self._folder.name, "LLM_DO_NOTIFY": "off"}
        self._services.append(spawn(command, self._folder / "service.log", variables))


def digests(workshop: Path) -> dict[str, str]:
    """The digest of every file a run may have changed; what a killed process left half-written is no file yet."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(workshop):
        folders[:] = [name for name in folders if name not in _NOT_COPIED]
        for name in names:
            path = Path(folder) / name
            if TEMPORARY_NAME.fullmatch(name) or not path.is_file():
                continue
            found[path.relative_to(workshop).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@dataclass(kw_only=True)
class Rehearsal(ABC):
    """Run or experiment in a lane, struck right after `point`; None: never."""

    lane: Lane
    run: str
    """Workflow id of what is rehearsed."""
    point: Point | None = None
    struck_after: str = ""
    """The event that was really the last one; where the run took another way it is not quite that of the point."""
    resumed: float | None = None
    """Seconds until a service took the run up again."""
    models: frozenset[str] = frozenset()
    """Models that were asked, as far as is known."""
    _struck_at: float | None = None
    _gone: int | None = None
    _generations: Counter[str] = field(default_factory=Counter[str])

    async def perform(self, patience: float) -> Evidence:
        """Do the run and gather what is left of it. Raises TimeoutError after `patience` seconds."""
        async with asyncio.timeout(patience):
            await self._start()
            result, error = await self._attend()
            await self.lane.wake()
            histories = await self._histories()
        if self._struck_at is not None:
            self.resumed = histories.resumed(self._struck_at, self._gone)
        return self._gather(result, error, histories)

    @abstractmethod
    async def _start(self) -> None:
        """Start it."""

    @abstractmethod
    async def _answer(self) -> None:
        """Answer the questions that wait."""

    @abstractmethod
    async def _result(self) -> Any:
        """Wait for its end, and return its result. Raises LlmDoError where it has none."""

    @abstractmethod
    def _gather(self, result: Any, error: str, histories: Histories) -> Evidence:
        """Put together what is left of it; `result` is None where there is an error."""

    @abstractmethod
    def _path(self, workflow: str) -> str:
        """Return the path of the workflow with this id."""

    async def _attend(self) -> tuple[Any, str]:
        """Answer all questions until it has ended, however often the server goes away meanwhile."""
        while True:
            try:
                follower = Follower(self.lane.client.temporal, self.run, wait=True, tap=self._note)
                async for event in follower.events():
                    if event.type == "desk.changed":
                        await self._answer()
                return await self._result(), ""
            except _AWAY:
                self._generations.clear()
                await asyncio.sleep(_RETRY_SECONDS)
            except LlmDoError as error:
                return None, str(error)

    async def _histories(self) -> Histories:
        while True:
            try:
                return await self._read()
            except _AWAY:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self) -> Histories:
        histories = Histories()

        def keep(workflow: str, event: HistoryEvent) -> None:
            histories.events.append((self._path(workflow), event))

        view = await Follower(self.lane.client.temporal, self.run, wait=False, tap=keep).read()
        self.models |= {node.model for node in view.nodes.values() if node.model}
        return histories

    def _note(self, workflow: str, event: HistoryEvent) -> None:
        """See an event; strike at the chosen event, or at the last chance of the workflow that it belongs to."""
        path = self._path(workflow)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            self._generations[path] += 1
        point = self.point
        if point is None or self._struck_at is not None or path != point.path:
            return
        reached = (self._generations[path] - 1, event.event_id) >= (point.generation, point.event_id)
        if reached or event.event_type in ENDS:
            self._gone = self.lane.strike()
            self._struck_at = time.time()
            self.struck_after = Histories([(path, event)]).points()[0].what


@dataclass(kw_only=True)
class RunRehearsal(Rehearsal):
    """Rehearsal of a run: whatever it asks is approved, but nothing that may have happened is done again."""

    request: StartRunInput
    _answered: set[str] = field(default_factory=set[str])
    _doubts: int = 0

    async def _start(self) -> None:
        await self.lane.client.start(self.request, run=self.run)

    async def _result(self) -> Any:
        return await self.lane.client.result(self.run)

    def _gather(self, result: Any, error: str, histories: Histories) -> Evidence:
        # How long people were waited for is another time in each run.
        left = None if result is None else result.model_dump(mode="json", exclude={"waited"})
        return gather(left, error, self.lane.files(), self._doubts, histories)

    async def _answer(self) -> None:
        """Approve each question, in the name of all who must; an effect that may have happened is not done again."""
        run = self.lane.client.temporal.get_workflow_handle(self.run)
        for approval in await self.lane.client.approvals(self.run):
            if approval.id not in self._answered:
                doubt = any(use.name == REPEAT for use in approval.request.capabilities)
                kind = DecisionKind.REJECT if doubt else DecisionKind.APPROVE
                for by in _signers(approval, self.request.started_by)[: 1 if doubt else None]:
                    await run.signal(DECIDE_SIGNAL, Decision(id=approval.id, decision=kind, by=by))
                self._answered.add(approval.id)
                self._doubts += doubt

    def _path(self, workflow: str) -> str:
        return workflow.removeprefix(self.run).removeprefix("/") or ENTRY_PATH


def _signers(approval: Question, started_by: str) -> list[str]:
    """Return as many names of people who may agree as must agree."""
    request = approval.request
    anybody = [f"{_BY}-{number}" if number else _BY for number in range(request.quorum)]
    return [name for name in request.approvers or anybody if name != started_by][: request.quorum]
