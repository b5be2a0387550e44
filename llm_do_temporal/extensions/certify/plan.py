"""Crash proof: one run or experiment is recorded, then done again, with a process killed at each event of it.

The stage is a server of its own, with copies of the workshop and worker services to kill. Experiments are known only if
the capability `evaluations` is installed. Every rehearsal of an experiment has a name of its own: ids of experiments
follow from it, and none takes results over from another.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.embedded.host import await_server, server_command, service_command, spawn
from llm_do_temporal.client.embedded.server import any_free_port
from llm_do_temporal.client.history.events import ENDS
from llm_do_temporal.client.history.questions import news_at_desk
from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, RunFailed, UsageError
from llm_do_temporal.extension import definition_files
from llm_do_temporal.extensions.certify.evidence import Evidence, Histories, Point, compare, gather
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.base import DECIDE_SIGNAL, ENTRY_PATH
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME
from llm_do_temporal.policy.models import Aliases, full_name
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
        self.folder, self._log = folder, folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Client:
        """Start it and return a client. Raises ConnectionFailed."""
        return await await_server(self._begin(), self.address, self.folder / "temporal.db", self._log)

    def strike(self) -> None:
        """SIGKILL it and start it again at once; it answers a little later."""
        self.close()
        self._begin()

    def close(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _begin(self) -> subprocess.Popen[bytes]:
        self._process = spawn(server_command(self.address, self.folder / "temporal.db", None), self._log, private=True)
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
            histories = Histories()

            def keep(workflow: str, event: HistoryEvent, kept: Histories = histories) -> None:
                kept.events.append((self._path(workflow), event))

            try:
                view = await Follower(self.lane.client.temporal, self.run, wait=False, tap=keep).read()
            except _AWAY:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
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
        return gather(left, error, digests(self.lane.workshop), self._doubts, histories)

    async def _answer(self) -> None:
        """Approve each question, in the name of all who must; an effect that may have happened is not done again."""
        run = self.lane.client.temporal.get_workflow_handle(self.run)
        for approval in await self.lane.client.approvals(self.run):
            if approval.id not in self._answered:
                doubt = any(use.name == REPEAT for use in approval.request.capabilities)
                kind = DecisionKind.REJECT if doubt else DecisionKind.APPROVE
                # As many people who may agree as must agree.
                quorum, approvers = approval.request.quorum, approval.request.approvers
                anybody = [f"{_BY}-{number}" if number else _BY for number in range(quorum)]
                signers = [name for name in approvers or anybody if name != self.request.started_by]
                for by in signers[: 1 if doubt else quorum]:
                    await run.signal(DECIDE_SIGNAL, Decision(id=approval.id, decision=kind, by=by))
                self._answered.add(approval.id)
                self._doubts += doubt

    def _path(self, workflow: str) -> str:
        return workflow.removeprefix(self.run).removeprefix("/") or ENTRY_PATH


EXPERIMENT_PATH = "experiment"
"""Path of the experiment's own workflow; those of cases end with the number of the repeat, so no case has it."""


def is_evaluation(worker: str) -> bool:
    """Return whether what is to be certified is an evaluation file."""
    return worker.endswith(tuple(one.suffix for one in definition_files() if one.kind == "eval"))


@dataclass(frozen=True)
class ExperimentSubject:
    """Evaluation whose experiment is done again each time."""

    spec: Any
    """EvaluationSpec."""

    @classmethod
    def of(cls, file: Path, folder: Path) -> ExperimentSubject:
        """Return the evaluation in a file. Raises DefinitionError, and UsageError for a file that is none."""
        from llm_do_temporal.extensions.evaluations.proof import find_evaluation

        return cls(find_evaluation(file, folder, None))

    def models(self, folder: Path) -> tuple[Sequence[str], Aliases]:
        """Return the models that the experiment asks, and the workshop's aliases.

        Raises UsageError for an evaluation that cannot be rehearsed, and DefinitionError.
        """
        from llm_do_temporal.extensions.evaluations.proof import check_evaluation

        return check_evaluation(self.spec, folder)

    def rehearsal(self, lane: Lane, name: str, point: Point | None) -> Rehearsal:
        """Return a rehearsal of the experiment under this name, struck right after `point`; None: never."""
        return ExperimentRehearsal(lane=lane, run="", point=point, spec=self.spec.model_copy(update={"name": name}))


@dataclass(kw_only=True)
class ExperimentRehearsal(Rehearsal):
    """Rehearsal of an experiment: the scripts of its cases answer, and nobody else."""

    spec: Any
    """EvaluationSpec."""

    async def _start(self) -> None:
        from llm_do_temporal.extensions.evaluations.proof import begin

        self.run, models = await begin(self.lane.client, self.spec, self.lane.workshop)
        self.models |= models

    async def _answer(self) -> None:
        """Answer nothing."""

    async def _result(self) -> Any:
        from llm_do_temporal.extensions.evaluations.proof import record_at_end

        return await record_at_end(self.lane.client, self.run, self.lane.workshop)

    def _gather(self, result: Any, error: str, histories: Histories) -> Evidence:
        return gather_experiment(result, error, digests(self.lane.workshop), histories)

    def _path(self, workflow: str) -> str:
        return workflow.removeprefix(self.run).removeprefix("-") or EXPERIMENT_PATH


def gather_experiment(record: Any, error: str, files: dict[str, str], histories: Histories) -> Evidence:
    """Put together what is left of an experiment; the ExperimentRecord is None where it has ended in an error."""
    if record is None:
        return gather(None, error, files, 0, histories)
    from llm_do_temporal.extensions.evaluations.proof import COUNTED, compared_parts, compared_whole, owners_of

    owners = owners_of(record)
    events: dict[str, list[tuple[str, HistoryEvent]]] = {name: [] for name in owners.values()}
    own: list[tuple[str, HistoryEvent]] = []
    for path, event in histories.events:
        owner = owners.get(path.partition("/")[0])
        (own if owner is None else events[owner]).append((path, event))
    parts = {
        name: gather(part, "", {}, _doubts(events[name]), Histories(events[name]))
        for name, part in compared_parts(record).items()
    }
    counted = [event.activity_task_scheduled_event_attributes.activity_type.name for _, event in own]
    left = compared_whole(record) | {name: counted.count(name) for name in COUNTED} | {"units": list(parts)}
    return replace(gather(left, "", files, 0, Histories(own)), points=histories.points(), parts=parts)


def _doubts(events: Sequence[tuple[str, HistoryEvent]]) -> int:
    """Number of questions whether to do again what may have happened."""
    asked = 0
    for path, event in events:
        news = None if "/" in path else news_at_desk(event)
        if news is not None and news.kind == "asked":
            uses = cast("list[dict[str, Any]]", news.message.get("capabilities") or [])
            asked += any(use.get("name") == REPEAT for use in uses)
    return asked


PATIENCE_SECONDS = 300.0
"""Least time that a struck run may take; it is ten times that of the recorded run if that is more."""
_FREE = ("offline:", "test:")


@dataclass(frozen=True)
class Plan:
    """A proof to be made: the run or the evaluation, and the events after which something is killed."""

    workshop: Path
    subject: StartRequest | ExperimentSubject
    """Start of each run, or evaluation of each experiment."""
    kinds: tuple[KillKind, ...] = ("service",)
    every: int = 1
    """Strike after every N-th event."""
    events: tuple[int, ...] = ()
    """Strike after these events only, by their numbers."""
    jobs: int = 2
    """Runs or experiments at a time; a struck server strikes all of them, so there it is one."""
    paid: bool = False
    """Whether runs may be made that a provider charges for."""
    fork_at: tuple[str, ...] | None = None
    """Turns that are done anew in a fork, as PATH@TURN. Then the run is made once, and forks of it are recorded and
    struck; None: the run itself is."""


@dataclass(frozen=True)
class Strike:
    """Outcome of one strike: a run in which a process was killed right after an event."""

    kind: KillKind
    point: Point
    struck_after: str
    problems: tuple[str, ...]
    doubts: int
    """Effects that the desk asked about, since they may or may not have happened."""
    seconds: float | None
    """Seconds from the strike until a service took the run up again; None where nothing was left to do."""

    @property
    def passed(self) -> bool:
        """Whether the run left the same as the recorded one."""
        return not self.problems


@dataclass
class Certificate:
    """Outcome of the whole proof."""

    run: Evidence
    exact: bool
    """Whether results, files and turns were compared too, as they can be where the models are scripted."""
    rows: list[Strike] = field(default_factory=list[Strike])
    kept: Path | None = None
    """Folder in which the server and the copies of the workshop are kept, if something failed."""

    @property
    def failed(self) -> int:
        """Number of strikes after which a run left something else."""
        return sum(not row.passed for row in self.rows)


async def certify(plan: Plan, tell: Callable[[Strike, int, int], None]) -> Certificate:
    """Make the proof. `tell` is called with each strike, its number and the number of all strikes.

    Raises UsageError where runs would cost money and may not, RunFailed where what is recorded ends without a result,
    and what `StartRequest.prepare` and `draft_evaluation` raise.
    """
    aliases = _check(plan)
    folder = Path(tempfile.mkdtemp(prefix="llm-do-certify-"))
    server = Server(folder)
    kept = False
    try:
        proof = _Proof(plan, aliases, server, await server.start(), tell)
        certificate = await proof.run()
        kept = certificate.failed > 0
        certificate.kept = folder if kept else None
        return certificate
    finally:
        server.close()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _check(plan: Plan) -> Aliases:
    """Return the workshop's aliases. Raises UsageError, and DefinitionError, for what is known before anything runs."""
    if isinstance(plan.subject, ExperimentSubject):
        models, aliases = plan.subject.models(plan.workshop)
    else:
        model, aliases = plan.subject.choose_model(plan.workshop)
        models = (model,)
    _check_cost(plan, [model for model in models if not is_free(aliases, model)])
    return aliases


def is_free(aliases: Aliases, model: str) -> bool:
    """Whether no provider charges for the model, or for any of several that commas join."""
    return all(full_name(aliases, one).startswith(_FREE) for one in model.split(","))


def _check_cost(plan: Plan, paid: Sequence[str]) -> None:
    if paid and not plan.paid:
        raise UsageError(
            f"it is all done again for every event of its history, and '{paid[0]}' may charge for each time",
            next_step="Add --yes if that is meant (and --every N for fewer), or take a model like offline:by-hand.",
        )


def _chosen(plan: Plan, points: Sequence[Point]) -> Sequence[Point]:
    """The events to strike after. Raises UsageError for one that the run does not have."""
    beyond = next((number for number in plan.events if not 0 < number <= len(points)), None)
    if beyond is not None:
        raise UsageError(f"there is no event {beyond}: the recorded run has {len(points)} of them")
    return [points[number - 1] for number in plan.events] if plan.events else points[:: plan.every]


class _Proof:
    def __init__(
        self, plan: Plan, aliases: Aliases, server: Server, client: Client, tell: Callable[[Strike, int, int], None]
    ) -> None:
        self._plan, self._aliases, self._server, self._client, self._tell = plan, aliases, server, client, tell
        self._before = digests(plan.workshop)
        self._patience = PATIENCE_SECONDS
        self._lanes = self._runs = self._blows = 0
        self._fork: StartRunInput | None = None
        """Start of each fork; None: the run itself is rehearsed, or it is still to be forked."""
        self._blobs: Path | None = None
        """Blobs that a fork needs, those of its record above all; None: there are none."""

    async def run(self) -> Certificate:
        """Record, then strike."""
        certificate = await self._record()
        points = _chosen(self._plan, certificate.run.points)
        self._blows = len(points) * len(self._plan.kinds)
        for kind in self._plan.kinds:
            todo = list(reversed(points))
            jobs = 1 if kind == "server" else min(self._plan.jobs, len(points))
            async with asyncio.TaskGroup() as group:
                for _ in range(jobs):
                    group.create_task(self._strike_all(kind, todo, certificate))
        certificate.rows.sort(key=lambda row: (self._plan.kinds.index(row.kind), row.point.number))
        return certificate

    async def _record(self) -> Certificate:
        lane = self._lane("service")
        try:
            if self._plan.fork_at is not None:
                try:
                    from llm_do_temporal.extensions.forks.client_forks import ForkRequest, plan_fork
                except ModuleNotFoundError as error:
                    raise UsageError("runs cannot be forked here: the extension 'forks' is not installed") from error
                first = self._rehearsal(lane)
                if error := (await first.perform(self._patience)).error:
                    raise RunFailed(f"the run to be forked ended without a result: {error}")
                fork = await plan_fork(
                    lane.client.temporal, first.run, ForkRequest(at=self._plan.fork_at), lane.workshop
                )
                self._fork = fork.prepared(workshop_blobs(lane.workshop))
                blobs = blob_folder(lane.workshop)
                if blobs.is_dir():
                    self._blobs = self._server.folder / "blobs"
                    shutil.copytree(blobs, self._blobs)
            began = time.monotonic()
            calm = self._rehearsal(lane)
            evidence = await calm.perform(self._patience)
            self._patience = max(self._patience, 10 * (time.monotonic() - began))
        finally:
            lane.close()
        if evidence.error:
            raise RunFailed(f"what was to be recorded ended without a result: {evidence.error}")
        paid = [model for model in sorted(calm.models) if not is_free(self._aliases, model)]
        _check_cost(self._plan, paid)
        return Certificate(evidence, exact=not paid)

    async def _strike_all(self, kind: KillKind, todo: list[Point], certificate: Certificate) -> None:
        lane = self._lane(kind)
        try:
            while todo:
                row = await self._strike(lane, todo.pop(), certificate)
                certificate.rows.append(row)
                self._tell(row, len(certificate.rows), self._blows)
                if not row.passed:
                    # Whatever still goes on there must not disturb the next one.
                    lane.close()
                    lane = self._lane(kind)
        finally:
            lane.close()

    async def _strike(self, lane: Lane, point: Point, certificate: Certificate) -> Strike:
        rehearsal = self._rehearsal(lane, point)
        try:
            evidence = await rehearsal.perform(self._patience)
        except (TimeoutError, RPCError, LlmDoError) as error:
            problem = f"the run did not end: {str(error) or f'{self._patience:.0f} s have passed'}"
            return Strike(lane.kind, point, rehearsal.struck_after, (problem,), 0, None)
        problems = compare(certificate.run, evidence, self._before, exact=certificate.exact)
        return Strike(lane.kind, point, rehearsal.struck_after, tuple(problems), evidence.all_doubts, rehearsal.resumed)

    def _lane(self, kind: KillKind) -> Lane:
        self._lanes += 1
        folder = self._server.folder / f"lane-{self._lanes}"
        return Lane(self._plan.workshop, folder, self._server, self._client, kind)

    def _rehearsal(self, lane: Lane, point: Point | None = None) -> Rehearsal:
        lane.reset(self._blobs)
        self._runs += 1
        run, subject = f"certify-{self._runs}", self._plan.subject
        if isinstance(subject, ExperimentSubject):
            return subject.rehearsal(lane, run, point)
        request = self._fork or subject.prepare(lane.workshop, embedded=True)
        return RunRehearsal(lane=lane, run=run, point=point, request=request)
