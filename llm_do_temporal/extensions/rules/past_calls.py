"""Past calls: calls that asked in the runs of the last time, each with its answer, as the histories tell them.

Owns the reading over many runs. Nothing is guessed: what a history does not tell is None, or among `unknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.history.events import as_object, first_object, read_chain
from llm_do_temporal.client.history.invocations import Beginnings
from llm_do_temporal.client.history.questions import Question, read_desk
from llm_do_temporal.client.views.server_list import ANSWERED_RUNS, NEWEST_EXECUTION, read_begun, stamp
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.messages.approvals import PROGRAM, DecisionKind
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_WORKFLOW
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.shell import ShellPolicy

MOST_RUNS_READ = 5_000
"""Runs that are read unless somebody wants more: each is a history, some milliseconds and some kilobytes."""
_NEXUS = "nexus"
"""Door whose callers say who has decided: nobody whom we know looked at the call."""
_AT_ONCE = 8
"""Histories read side by side."""
UnknownFact = Literal["definition", "files"]
"""Fact that the history of a call may lack: the definition of its worker, or where the files that it names were."""


class CallAnswer(StrEnum):
    """Answer that a call got."""

    APPROVED = "approved"
    """A person agreed to the call as it was."""
    REJECTED = "rejected"
    """A person refused it."""
    MODIFIED = "modified"
    """A person agreed to other arguments."""
    REMEMBERED = "remembered"
    """A decision that was remembered, or a rule, answered it: no person looked at this call."""
    PROGRAM = "program"
    """A program with a token decided, a workflow handed it on, or a signal named nobody: who looked is not known."""
    EXPIRED = "expired"
    """Time that ran out before anybody decided."""
    NONE = "none"
    """Withdrawal, no answer yet, or an approval of a call that was then asked about again."""

    @property
    def is_of_person(self) -> bool:
        """Whether a person looked at this call and decided."""
        return self in (CallAnswer.APPROVED, CallAnswer.REJECTED, CallAnswer.MODIFIED)

    @property
    def is_against(self) -> bool:
        """Whether a person did not want this call as it was."""
        return self in (CallAnswer.REJECTED, CallAnswer.MODIFIED)


@dataclass(frozen=True)
class AskingWorker:
    """Worker that asked, as its invocation had it."""

    sha256: str
    """Digest of its definition."""
    shell: ShellPolicy | None
    """Commands that it might run; None: it had no `shell`."""
    rules: ApprovalRules
    """Rules of the workshop when the run began."""
    mode: Mode


@dataclass(frozen=True)
class PastCall:
    """Call that asked, with its answer."""

    question: Question
    """The question, with the whole call; `question.verdict` is the decision."""
    asker: AskingWorker | None
    """None where the run's history does not have the definition: that of a worker below a worker of the entry."""
    task: str = ""
    """First line of the run's prompt; empty where nothing tells it."""

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.question.run

    @property
    def asked_at(self) -> datetime:
        """Time of the question."""
        return self.question.asked_at

    @property
    def answer(self) -> CallAnswer:
        """The answer; of several votes, the decision that they made."""
        verdict = self.question.verdict
        is_moot = self.question.again and verdict is not None and verdict.decision is DecisionKind.APPROVE
        if verdict is None or verdict.door == "script" or is_moot:
            return CallAnswer.NONE
        if verdict.door == "timer":
            return CallAnswer.EXPIRED
        if verdict.door not in ("signal", "update"):
            return CallAnswer.REMEMBERED
        if not verdict.by or verdict.by.startswith(PROGRAM) or verdict.via == _NEXUS:
            return CallAnswer.PROGRAM
        answers = {DecisionKind.APPROVE: CallAnswer.APPROVED, DecisionKind.MODIFY: CallAnswer.MODIFIED}
        return answers.get(verdict.decision, CallAnswer.REJECTED)

    @property
    def speaks_against(self) -> bool:
        """Whether a person, or a program that answers for people, did not want this call as it was, or an identical one
        before whose answer was remembered."""
        verdict = self.question.verdict
        return self.answer.is_against or (
            self.answer in (CallAnswer.REMEMBERED, CallAnswer.PROGRAM)
            and verdict is not None
            and verdict.decision is not DecisionKind.APPROVE
        )

    @property
    def by(self) -> str:
        """Name of the person who decided last; empty where none did."""
        verdict = self.question.verdict
        return verdict.by if verdict is not None and self.answer.is_of_person else ""

    @property
    def unknown(self) -> frozenset[UnknownFact]:
        """Facts about the call that its history lacks."""
        facts: set[UnknownFact] = set()
        if self.asker is None:
            facts.add("definition")
        request = self.question.request
        if request.tool in PATH_TOOLS and not any(one.place is not None for one in request.files):
            facts.add("files")
        return frozenset(facts)


@dataclass(frozen=True)
class PastCalls:
    """Calls that asked since some time, in all runs that could be read."""

    calls: tuple[PastCall, ...]
    """The calls, in the order in which they asked."""
    runs: int
    """Number of runs that were read."""
    locked: tuple[str, ...] = ()
    """Ids of runs that cannot be read here: a key or the blob store is missing."""
    is_cut: bool = False
    """Whether there are more runs, which were not read."""


class PastCallReader:
    """Reads past calls. Remembers those of runs that have ended, so that the next reading is quick."""

    def __init__(self, client: Client, *, task_queue: str | None = None) -> None:
        """Read the runs of the worker services with this task queue: those of one workshop; None: of the namespace."""
        self._client = client
        self._task_queue = task_queue
        self._ended: dict[str, tuple[PastCall, ...]] = {}
        """Calls of ended runs that were read, by the id of the execution."""

    async def read(self, since: datetime, *, limit: int = MOST_RUNS_READ) -> PastCalls:
        """Return what was asked since then, in at most `limit` runs, those that are open and those that ended last.

        `since` has a time zone. Raises ConnectionFailed.
        """
        turn, listed, is_cut = asyncio.Semaphore(_AT_ONCE), 0, False
        reading: list[asyncio.Task[tuple[PastCall, ...] | str]] = []
        ended: dict[str, asyncio.Task[tuple[PastCall, ...] | str]] = {}
        async with translated():
            try:
                async with asyncio.TaskGroup() as group:
                    listing = self._client.list_workflows(self._query(since), page_size=min(limit + 1, ANSWERED_RUNS))
                    async for execution in listing:
                        if listed == limit:
                            is_cut = True
                            break
                        listed += 1
                        task = group.create_task(self._read_run(execution, turn))
                        reading.append(task)
                        if execution.status is not WorkflowExecutionStatus.RUNNING:
                            ended[execution.run_id] = task
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from failures
        found = [task.result() for task in reading]
        self._ended = {key: read for key, task in ended.items() if not isinstance(read := task.result(), str)}
        calls = [call for each in found if not isinstance(each, str) for call in each if call.asked_at >= since]
        return PastCalls(
            calls=tuple(sorted(calls, key=lambda call: call.asked_at)),
            runs=sum(not isinstance(each, str) for each in found),
            locked=tuple(each for each in found if isinstance(each, str) and each),
            is_cut=is_cut,
        )

    def _query(self, since: datetime) -> str:
        ended = f"CloseTime >= '{stamp(since)}'"
        served = "" if self._task_queue is None else f" AND TaskQueue = '{quoted(self._task_queue)}'"
        runs = f"WorkflowType = '{RUN_WORKFLOW}' AND {NEWEST_EXECUTION}{served}"
        return f"{runs} AND (ExecutionStatus = 'Running' OR {ended})"

    async def _read_run(self, execution: WorkflowExecution, turn: asyncio.Semaphore) -> tuple[PastCall, ...] | str:
        """Return the calls of a run; the id of one that cannot be read here, "" for one that is gone."""
        known = self._ended.get(execution.run_id)
        if known is not None:
            return known
        async with turn:
            try:
                task = (await read_begun(execution.raw_info, self._client.data_converter)).task
                events = read_chain(self._client, execution.id, None, wait=False)
                return await past_calls_of(execution.id, events, task)
            except (KeyMismatch, UsageError):
                return execution.id
            except RPCError as error:
                if not is_missing(error):
                    raise
                return ""


async def past_calls_of(run: str, events: AsyncIterator[HistoryEvent], task: str = "") -> tuple[PastCall, ...]:
    """Return the calls that asked in a run with this task and these events.

    Raises UsageError where a value is kept elsewhere.
    """
    askers = _Askers()
    account = await read_desk(run, askers.passed(events))
    return tuple(PastCall(one, askers.found.get(one.request.path), task) for one in account.questions)


class _Askers:
    """Collects the definitions of the invocations that a run's history tells: the entry, and the ones it called."""

    def __init__(self) -> None:
        self.found: dict[str, AskingWorker] = {}
        """Workers by the path of their invocation."""
        self._beginnings = Beginnings()

    async def passed(self, events: AsyncIterator[HistoryEvent]) -> AsyncIterator[HistoryEvent]:
        """Yield the events as they are, each once it was looked at."""
        async for event in events:
            self._take(event)
            yield event

    def _take(self, event: HistoryEvent) -> None:
        beginning = self._beginnings.take(event)
        if beginning is not None and not beginning.is_outside:
            self._note(beginning.given)
        called = event.start_child_workflow_execution_initiated_event_attributes
        if called.workflow_type.name == WORKER_WORKFLOW:
            self._note(first_object(called.input.payloads))

    def _note(self, given: dict[str, Any]) -> None:
        """Note the worker of an invocation that starts like this, an InvokeWorkerInput as JSON."""
        worker, settings, path = as_object(given.get("worker")), as_object(given.get("settings")), given.get("path")
        try:
            asker = AskingWorker(
                sha256=str(worker["sha256"]),
                shell=None if worker.get("shell") is None else ShellPolicy.model_validate(worker["shell"]),
                rules=ApprovalRules.model_validate(settings["rules"]),
                mode=Mode(settings["mode"]),
            )
        except (KeyError, ValueError, ValidationError):
            return
        if isinstance(path, str):
            self.found[path] = asker


T = TypeVar("T")
MOST_RUNS = 500
"""Most runs that a visit reads: some seconds the first time. `rules test` reads more."""
_MOST_TRIALS = 16
"""Most trials that are kept."""
_GOOD_FOR = timedelta(minutes=1)


class SharedPastCalls:
    """Past calls of the last days, shared among all visitors."""

    def __init__(self, client: Client) -> None:
        self._reader = PastCallReader(client)
        self._turn = asyncio.Lock()
        self._days = 0
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._past = PastCalls(calls=(), runs=0)
        self._trials: dict[str, Any] = {}
        """Trials of these calls, by their key."""

    async def tried(self, days: int, key: str, trial: Callable[[PastCalls], T]) -> T:
        """Return the trial, in a thread of its own, of what was asked in the last days.

        `key` names all that the trial depends on besides. Calls are as they were at most a minute ago. Raises
        ConnectionFailed.
        """
        async with self._turn:
            now = datetime.now(UTC)
            if days != self._days or now - self._read_at > _GOOD_FOR:
                # The reader remembers the runs of one reading; several lengths of time at once would cost more.
                self._past = await self._reader.read(now - timedelta(days=days), limit=MOST_RUNS)
                self._days, self._read_at, self._trials = days, now, {}
            if key not in self._trials:
                if len(self._trials) == _MOST_TRIALS:
                    self._trials = {}
                self._trials[key] = await asyncio.to_thread(trial, self._past)
            return cast("T", self._trials[key])
