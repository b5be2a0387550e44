"""Records of runs, from their histories: the start, the invocations with all that they did, and the questions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, cast

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing, out_of_reach
from llm_do_temporal.client.history.events import activity_of, decode_json, failed_activity, local_effect, read_chain
from llm_do_temporal.client.history.invocations import Beginnings, RequestParts, is_result
from llm_do_temporal.client.history.questions import Question, read_desk
from llm_do_temporal.errors import ApprovalTimedOut, BudgetExceeded, OutcomeUnknown, RunCancelled, UsageError
from llm_do_temporal.extensions.forks.policy.changes import (
    KeyedCall,
    KeyedInvocation,
    KeyedQuestion,
    KeyedTurn,
    RunOutline,
)
from llm_do_temporal.messages.activities import (
    BUILD_INPUT,
    CALL_EXTERNAL_TOOL,
    CALL_PYTHON_TOOL,
    EDIT_FILE,
    FIND_FILES,
    KEEP_CONVERSATION,
    LIST_EXTERNAL_TOOLS,
    LIST_FILES,
    LOAD_RUN,
    LOAD_TEMPLATE,
    READ_FILE,
    REQUEST_MODEL,
    RUN_COMMAND,
    SAVE_WORKER,
    SNAPSHOT_ATTACHMENTS,
    WRITE_FILE,
    LoadedRun,
)
from llm_do_temporal.messages.base import RUN_WORKFLOW, TIME_IS_UP, WORKER_WORKFLOW
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.conversation import REUSED, TURN_KEYS, Reused
from llm_do_temporal.messages.runs import InvocationResult, InvokeWorkerInput, StartRunInput
from llm_do_temporal.policy.identity import call_key
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.storage.external_storage import is_kept_outside
from llm_do_temporal.telemetry.contents import arguments_of, parts_of

Outcome = Literal["returned", "failed", "retry"]
_OUTCOMES: Mapping[str, Outcome] = {"success": "returned", "failed": "failed", "retried": "retry"}
"""Outcomes by the names that Pydantic AI has for them. Others are not the tool's own, and not recorded."""
_CHANGES = (WRITE_FILE.name, EDIT_FILE.name, SAVE_WORKER.name, RUN_COMMAND.name)
"""Activities that change files, by a call with a content key."""
FILE_READS = (READ_FILE.name, LIST_FILES.name, FIND_FILES.name, SNAPSHOT_ATTACHMENTS.name)
"""Activities that read files."""
_READS = (*FILE_READS, LOAD_TEMPLATE.name, BUILD_INPUT.name, LIST_EXTERNAL_TOOLS.name)
_ONCE = (RUN_COMMAND.name, CALL_PYTHON_TOOL.name, CALL_EXTERNAL_TOOL.name)
"""Activities of which nobody knows whether they happened, where they were lost."""
_UNTOLD = (TIME_IS_UP, "WorkerShutdown", OutcomeUnknown.__name__)
"""Types of failures that do not tell whether an effect happened."""
_STOPPED = (BudgetExceeded.__name__, ApprovalTimedOut.__name__, RunCancelled.__name__)
"""Types of failures with which an invocation was stopped, whatever its model had answered."""
_OUTPUT_TOOL = "final_result"
"""Tool of Pydantic AI by which a model gives a structured result; no call of it has a key."""


@dataclass
class MadeCall:
    """Tool call of an answer."""

    key: str
    tool: str
    args: dict[str, Any]
    number: int
    """Number in its turn, from 1."""
    id: str
    """Id that the call shares with its result."""
    outcome: Outcome | None = None
    """None: the model was not told of any."""
    content: Any = None
    """Result as the model got it."""
    lost: bool = False
    """Whether nobody knows what came of an effect of it."""


@dataclass
class AnsweredTurn:
    """Turn of a model, with its answer as the history has it."""

    number: int
    key: str
    answer: dict[str, Any]
    calls: list[MadeCall]
    review: str | None = None
    """Words of a review after it, that the agent went on with; None: there were none."""

    @property
    def usage(self) -> dict[str, Any]:
        """Usage of the turn, as Pydantic AI's RequestUsage is in the history."""
        return cast("dict[str, Any]", self.answer.get("usage") or {})

    @property
    def spent(self) -> Usage:
        """Usage of the turn, as runs count it."""
        cost = self.usage.get("cost")
        return Usage(
            requests=1,
            input_tokens=int(self.usage.get("input_tokens") or 0),
            output_tokens=int(self.usage.get("output_tokens") or 0),
            cost_usd=None if cost is None else Decimal(str(cost)),
        )


@dataclass
class MadeEffect:
    """Change of files by an activity."""

    activity: str
    request: dict[str, Any]
    turn: int
    """Turn after whose answer it was made."""
    at: int
    """Time at which it ended, in nanoseconds since 1970."""
    result: Any = None

    @property
    def key(self) -> str:
        """Key of the call that it belongs to; empty: it has none."""
        return str(self.request.get("content_key") or "")


@dataclass(frozen=True)
class MadeRead:
    """Result of an activity that only read."""

    activity: str
    key: str
    """Read key of the request; see `policy.identity`."""
    result: dict[str, Any]
    at: int
    """Time at which it ended, in nanoseconds since 1970."""


@dataclass
class InvocationRecord:
    """Invocation with everything that it did."""

    start: InvokeWorkerInput
    turns: list[AnsweredTurn] = field(default_factory=list[AnsweredTurn])
    effects: list[MadeEffect] = field(default_factory=list[MadeEffect])
    children: dict[str, int] = field(default_factory=dict[str, int])
    """Turn after whose answer each invocation below began, by its workflow."""
    result: InvocationResult | None = None
    """None: it has not completed."""
    begun: set[str] = field(default_factory=set[str])
    """Keys of calls of which an effect has begun that must not happen twice: more than changes of a layer."""
    is_blamed: bool = False
    """Whether it failed, and its newest answer may be why: it was neither stopped nor was a model still to answer."""

    @property
    def path(self) -> str:
        """Place in the tree."""
        return self.start.path

    @property
    def workflow(self) -> str:
        """Id of its workflow, where it was called by another."""
        return f"{self.start.run}/{self.path}"

    @property
    def functions(self) -> dict[str, str]:
        """Kinds of the Python functions of its worker, by their names."""
        toolset = self.start.worker.python
        return {} if toolset is None else {tool.name: tool.kind for tool in toolset.tools}

    @property
    def has_layer(self) -> bool:
        """Whether it works on a layer, as far as its start tells."""
        settings, worker = self.start.settings, self.start.worker
        return self.start.layer is not None or bool(settings.review or worker.review) or settings.aside


class HistoryReader:
    """Reads the histories of one workflow, its events in their order. Raises UsageError for values out of reach."""

    def __init__(self) -> None:
        self.record: InvocationRecord | None = None
        """The invocation in the workflow; None: it has not begun, or the workflow is that of a batch."""
        self.started: StartRunInput | None = None
        """Start of the run, in the history of a run; None in any other."""
        self.loaded: LoadedRun | None = None
        """Result of the loading of the run's entry worker; None: there is none."""
        self.children: list[str] = []
        """Workflows of the invocations that began below, in their order."""
        self.reads: list[MadeRead] = []
        self.first_change: int | None = None
        """Time of the first change of files, in nanoseconds since 1970; None: there was none."""
        self._beginnings = Beginnings()
        self._requests = RequestParts()
        self._is_waiting = False
        """Whether the newest request of a model has no answer yet."""
        self._open: dict[int, MadeEffect] = {}
        self._lost: set[str] = set()
        self._names: dict[int, str] = {}
        """Names of activities by the events that scheduled them."""

    def take(self, event: HistoryEvent) -> None:
        """Take in the next event."""
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            self._begin_history(event)
        self._take_result(event)
        begun = self._beginnings.take(event)
        if begun is not None and self.record is None:
            if begun.is_outside or begun.before is not None:
                raise out_of_reach()
            self.record = InvocationRecord(InvokeWorkerInput.model_validate(begun.given))
        self._take_child(event)
        if self.record is None:
            return
        if event.HasField("activity_task_scheduled_event_attributes"):
            self._scheduled(event, self.record)
        elif event.HasField("activity_task_completed_event_attributes"):
            self._completed(event, self.record)
        elif (failed := failed_activity(event)) is not None:
            self._failed(event, failed[0])
        elif event.HasField("workflow_execution_failed_event_attributes"):
            failure = event.workflow_execution_failed_event_attributes.failure
            self.record.is_blamed = not self._is_waiting and failure.application_failure_info.type not in _STOPPED
        elif event.HasField("workflow_execution_completed_event_attributes"):
            told = at_hand(event.workflow_execution_completed_event_attributes.result.payloads)
            self.record.result = InvocationResult.model_validate(told)

    def finish(self) -> None:
        """Mark the calls whose effects have not ended, or were lost: nobody knows what came of them."""
        lost = self._lost | {one.key for one in self._open.values() if one.activity in _ONCE}
        for turn in self.record.turns if self.record is not None else ():
            for call in turn.calls:
                call.lost = call.key in lost

    def _begin_history(self, event: HistoryEvent) -> None:
        self._requests, self._open, self._names = RequestParts(), {}, {}
        started = event.workflow_execution_started_event_attributes
        if started.HasField("parent_workflow_execution"):
            return
        is_first = self.started is None and not started.continued_execution_run_id
        # A run that reads what it is given goes on as new with that, which is its start.
        if is_first or (self.started is not None and self.started.reads is not None):
            self.started = StartRunInput.model_validate(at_hand(started.input.payloads) or {"worker": ""})

    def _take_result(self, event: HistoryEvent) -> None:
        """Note what an activity has loaded or read, in the workflow's task or outside of it, and when files changed."""
        attributes, local = event.activity_task_scheduled_event_attributes, local_effect(event)
        if attributes.activity_type.name:
            self._names[event.event_id] = attributes.activity_type.name
        if local is not None:
            name, payloads, at = local.activity, local.result, local.ended_at
        else:
            completed = event.activity_task_completed_event_attributes
            name = self._names.get(completed.scheduled_event_id, "")
            payloads, at = completed.result.payloads, event.event_time.ToNanoseconds()
        if name in _CHANGES:
            self.first_change = min(at, self.first_change or at)
        elif name == LOAD_RUN.name and payloads:
            self.loaded = LoadedRun.model_validate(at_hand(payloads))
        elif name in _READS and payloads and not is_kept_outside(payloads[0]):
            result = cast("dict[str, Any]", decode_json(payloads[0]) or {})
            if result.get("read_key"):
                self.reads.append(MadeRead(name, str(result["read_key"]), result, at))

    def _take_child(self, event: HistoryEvent) -> None:
        begun = event.start_child_workflow_execution_initiated_event_attributes
        if begun.workflow_type.name == WORKER_WORKFLOW:
            self.children.append(begun.workflow_id)
            if self.record is not None:
                self.record.children[begun.workflow_id] = len(self.record.turns)

    def _scheduled(self, event: HistoryEvent, record: InvocationRecord) -> None:
        attributes = event.activity_task_scheduled_event_attributes
        name, payloads = attributes.activity_type.name, attributes.input.payloads
        if name in (REQUEST_MODEL.name, KEEP_CONVERSATION.name):
            parts = self._requests.take(event)
            if parts is None:
                raise out_of_reach()
            if record.turns:
                _take_results(record.turns[-1], parts)
        if name == REQUEST_MODEL.name:
            self._is_waiting = True
        elif name in (*_CHANGES, *_ONCE):
            request = cast("dict[str, Any]", at_hand(payloads) or {})
            if name in _ONCE and (request.get("network") or not request.get("layer")):
                record.begun.add(str(request.get("content_key") or ""))
            self._open[event.event_id] = MadeEffect(name, request, len(record.turns), event.event_time.ToNanoseconds())

    def _completed(self, event: HistoryEvent, record: InvocationRecord) -> None:
        scheduled, payloads = activity_of(event), event.activity_task_completed_event_attributes.result.payloads
        if self._names.get(scheduled) == REQUEST_MODEL.name:
            self._is_waiting = False
            record.turns.append(_answered(len(record.turns) + 1, cast("dict[str, Any]", at_hand(payloads) or {})))
        effect = self._open.pop(scheduled, None)
        if effect is not None and effect.activity in _CHANGES:
            effect.result, effect.at = at_hand(payloads), event.event_time.ToNanoseconds()
            record.effects.append(effect)

    def _failed(self, event: HistoryEvent, scheduled: int) -> None:
        effect = self._open.pop(scheduled, None)
        failure = event.activity_task_failed_event_attributes.failure
        told = failure.HasField("application_failure_info") and failure.application_failure_info.type not in _UNTOLD
        if effect is not None and effect.activity in _ONCE and not told:
            self._lost.add(effect.key)


def at_hand(payloads: Sequence[Payload]) -> Any:
    """Return the JSON value of the first payload; None without any. Raises UsageError where it is not here."""
    if any(map(is_kept_outside, payloads)):
        raise out_of_reach()
    return decode_json(payloads[0]) if payloads else None


def _answered(number: int, answer: dict[str, Any]) -> AnsweredTurn:
    metadata = cast("Mapping[str, Any]", answer.get("metadata") or {})
    key = str(cast("Mapping[str, Any]", metadata.get(TURN_KEYS) or {}).get("turn") or "")
    calls: list[MadeCall] = []
    equal: Counter[str] = Counter()
    for part in parts_of(answer):
        if part.get("part_kind") != "tool-call" or part.get("tool_name") == _OUTPUT_TOOL:
            continue
        tool, args = str(part.get("tool_name") or ""), arguments_of(part)
        args = cast("dict[str, Any]", args) if isinstance(args, dict) else {}
        same = canonical([tool, args])
        equal[same] += 1
        made = call_key(key, tool, args, equal[same])
        calls.append(MadeCall(made, tool, args, len(calls) + 1, str(part.get("tool_call_id") or "")))
    return AnsweredTurn(number, key, _with_usage(answer, metadata), calls)


def _with_usage(answer: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer with what its turn cost where it was asked: in a fork, a reused turn has cost nothing."""
    if REUSED not in metadata:
        return answer
    saved = Reused.model_validate(metadata[REUSED]).saved
    cost = None if saved.cost_usd is None else str(saved.cost_usd)
    usage = cast("dict[str, Any]", answer.get("usage") or {})
    spent = {"input_tokens": saved.input_tokens, "output_tokens": saved.output_tokens, "cost": cost}
    return {**answer, "usage": {**usage, **spent}}


def _take_results(turn: AnsweredTurn, parts: Sequence[dict[str, Any]]) -> None:
    """Note the outcomes of the turn's calls, as the next request tells them, or the words of a review."""
    waiting = {call.id: call for call in turn.calls if call.outcome is None}
    for part in parts:
        if not is_result(part):
            if part.get("part_kind") == "user-prompt" and isinstance(part.get("content"), str):
                turn.review = str(part["content"])
            continue
        call = waiting.get(str(part.get("tool_call_id") or ""))
        if call is None:
            continue
        content, outcome = part.get("content"), _OUTCOMES.get(str(part.get("outcome") or "success"))
        if outcome is not None and (outcome != "retry" or isinstance(content, str)):
            call.outcome, call.content = outcome, content


_AT_ONCE = 16
"""Histories read side by side."""


@dataclass
class RunRecord:
    """Run as its histories tell it."""

    run: str
    execution: str
    """Id of its newest Temporal run."""
    start: StartRunInput
    loaded: LoadedRun | None
    """Entry worker and settings; None: it ended before these were loaded."""
    invocations: dict[str, InvocationRecord] = field(default_factory=dict[str, InvocationRecord])
    """Invocations by their paths, in the order of the paths."""
    questions: Sequence[Question] = ()
    reads: dict[str, Any] = field(default_factory=dict[str, Any])
    """Results of what was read before the run changed any file, by read keys."""

    def below(self, path: str) -> list[InvocationRecord]:
        """Return the invocation at this path and all below it."""
        return [one for at, one in self.invocations.items() if at == path or at.startswith(f"{path}/")]

    def children_of(self, parent: InvocationRecord) -> list[InvocationRecord]:
        """Return the invocations directly below one."""
        return [one for one in self.invocations.values() if one.path.rpartition("/")[0] == parent.path]

    def spent_below(self, path: str) -> Usage:
        """Return the usage of all turns of the invocation at this path and of those below it."""
        spent = Usage()
        for turn in (turn for one in self.below(path) for turn in one.turns):
            spent = spent.plus(turn.spent)
        return spent

    def outline(self) -> RunOutline:
        """Return the steps of the run by their keys, without contents."""
        questions = tuple(
            KeyedQuestion(
                id=one.id,
                path=one.request.path,
                tool=one.request.tool,
                content_key=one.request.content_key,
                is_review=one.request.extension is not None,
            )
            for one in self.questions
        )
        return RunOutline(
            run=self.run, invocations=tuple(map(self._keyed, self.invocations.values())), questions=questions
        )

    def _keyed(self, one: InvocationRecord) -> KeyedInvocation:
        below: dict[str, list[str]] = {}
        for child in self.children_of(one):
            below.setdefault(child.start.called_by, []).append(child.path)
        turns = tuple(
            KeyedTurn(
                number=turn.number,
                key=turn.key,
                input_tokens=turn.spent.input_tokens,
                output_tokens=turn.spent.output_tokens,
                cached_tokens=int(turn.usage.get("cache_read_tokens") or 0),
                cost=turn.spent.cost_usd,
                calls=tuple(
                    KeyedCall(
                        key=call.key,
                        tool=call.tool,
                        number=call.number,
                        children=tuple(below.get(call.key, ())),
                        of_function=call.tool in one.functions,
                    )
                    for call in turn.calls
                ),
            )
            for turn in one.turns
        )
        return KeyedInvocation(
            path=one.path,
            delegation_key=one.start.content_key,
            called_by=one.start.called_by,
            turns=turns,
            ended=one.result is not None,
        )


async def read_run_record(client: Client, run: str) -> RunRecord:
    """Read all histories of a run's tree. Raises UsageError where it cannot be forked, RPCError, KeyMismatch."""
    execution = (await client.get_workflow_handle(run).describe()).raw_info
    if execution.type.name != RUN_WORKFLOW:
        raise UsageError(f"'{run}' is no run, but a '{execution.type.name}'; only whole runs can be forked")
    reader, events = HistoryReader(), list[HistoryEvent]()
    async for event in read_chain(client, run, None, wait=False):
        events.append(event)
        reader.take(event)
    reader.finish()
    if reader.started is None:
        raise UsageError(
            f"the beginning of run '{run}' is no longer kept by the server, so it cannot be forked",
            next_step="Start it again; the server keeps histories for as long as the namespace's retention says.",
        )

    async def each() -> AsyncIterator[HistoryEvent]:
        for event in events:
            yield event

    questions, _ = await read_desk(run, each())
    record = RunRecord(run, execution.execution.run_id, reader.started, reader.loaded, questions=questions)
    turn = asyncio.Semaphore(_AT_ONCE)
    readers = [reader, *await _read_below(client, reader.children, turn)]
    found = [one.record for one in readers if one.record is not None]
    record.reads = _reads(readers)
    record.invocations = {one.path: one for one in sorted(found, key=lambda one: _order(one.path))}
    return record


def _reads(readers: Sequence[HistoryReader]) -> dict[str, Any]:
    """Return the results of what was read, where it was the same each time and no change of the run is in it."""
    changes = [one.first_change for one in readers if one.first_change is not None]
    found: dict[str, Any] = {}
    unequal: set[str] = set()
    for read in (read for one in readers for read in one.reads):
        if read.activity in FILE_READS and changes and read.at >= min(changes):
            continue
        if found.setdefault(read.key, read.result) != read.result:
            unequal.add(read.key)
    return {key: result for key, result in found.items() if key not in unequal}


async def _read_below(client: Client, workflows: Sequence[str], turn: asyncio.Semaphore) -> list[HistoryReader]:
    """Return what these workflows, and all below them, have done; those that are no longer kept are left out."""

    async def read(workflow_id: str) -> list[HistoryReader]:
        reader = HistoryReader()
        try:
            async with turn:
                async for event in read_chain(client, workflow_id, None, wait=False):
                    reader.take(event)
        except RPCError as error:
            if not is_missing(error):
                raise
            return []
        reader.finish()
        below = await _read_below(client, reader.children, turn)
        return [reader, *below]

    return [one for each in await asyncio.gather(*map(read, workflows)) for one in each]


def _order(path: str) -> list[tuple[str, int]]:
    """Return a path as paths are ordered: by names, and those of the same worker by their numbers."""
    found: list[tuple[str, int]] = []
    for part in path.split("/"):
        name, _, number = part.rpartition("-")
        found.append((name, int(number)) if name and number.isdigit() else (part, 0))
    return found
