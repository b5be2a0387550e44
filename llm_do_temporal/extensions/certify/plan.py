"""Plan of a crash proof: record one run or experiment, then strike at each event of it, and compare what is left."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.errors import LlmDoError, RunFailed, UsageError
from llm_do_temporal.extensions.certify.evidence import Evidence, Point, compare
from llm_do_temporal.extensions.certify.experiments import ExperimentSubject
from llm_do_temporal.extensions.certify.rehearsal import (
    KillKind,
    Lane,
    Rehearsal,
    RunRehearsal,
    Server,
    digests,
)
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.models import Aliases, full_name
from llm_do_temporal.storage.blobs import blob_folder
from llm_do_temporal.storage.places import workshop_blobs

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
        proof = _Proof(plan, aliases, _Stage(folder, server, await server.start()), tell)
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


@dataclass(frozen=True)
class _Stage:
    folder: Path
    server: Server
    client: Client


class _Proof:
    def __init__(self, plan: Plan, aliases: Aliases, stage: _Stage, tell: Callable[[Strike, int, int], None]) -> None:
        self._plan, self._aliases, self._stage, self._tell = plan, aliases, stage, tell
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
                    self._blobs = self._stage.folder / "blobs"
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
        folder = self._stage.folder / f"lane-{self._lanes}"
        return Lane(self._plan.workshop, folder, self._stage.server, self._stage.client, kind)

    def _rehearsal(self, lane: Lane, point: Point | None = None) -> Rehearsal:
        lane.reset(self._blobs)
        self._runs += 1
        run, subject = f"certify-{self._runs}", self._plan.subject
        if isinstance(subject, ExperimentSubject):
            return subject.rehearsal(lane, run, point)
        request = self._fork or subject.prepare(lane.workshop, embedded=True)
        return RunRehearsal(lane=lane, run=run, point=point, request=request)
