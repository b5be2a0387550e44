"""Record of a run for forks of it: its start, the invocations of its tree with all that they did, and its questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.forks.invocation_record import FILE_READS, AnsweredTurn, HistoryReader, InvocationRecord
from llm_do_temporal.client.history.events import read_chain
from llm_do_temporal.client.history.questions import Question, read_desk
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.effects import LoadedRun
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.reuse.outline import (
    KeyedCall,
    KeyedInvocation,
    KeyedQuestion,
    KeyedTurn,
    RunOutline,
)

_AT_ONCE = 16
"""Histories read side by side."""
_PERSON = ("signal", "update", "script")
"""Doors of decisions that somebody has taken about this very question, or that a fork took over from such a one."""


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
        for one in self.below(path):
            for turn in one.turns:
                keyed = keyed_turn(turn)
                spent = spent.plus(
                    Usage(
                        requests=1,
                        input_tokens=keyed.input_tokens,
                        output_tokens=keyed.output_tokens,
                        cost_usd=keyed.cost,
                    )
                )
        return spent

    def outline(self) -> RunOutline:
        """Return the steps of the run by their keys, without contents."""
        return RunOutline(
            run=self.run,
            invocations=tuple(self._keyed(one) for one in self.invocations.values()),
            questions=tuple(map(_keyed_question, self.questions)),
        )

    def functions_of(self, one: InvocationRecord) -> frozenset[str]:
        """Return the names of the Python functions of an invocation's worker."""
        toolset = one.start.worker.python
        return frozenset(tool.name for tool in (toolset.tools if toolset is not None else ()))

    def _keyed(self, one: InvocationRecord) -> KeyedInvocation:
        below: dict[str, list[str]] = {}
        for child in self.children_of(one):
            below.setdefault(child.start.called_by, []).append(child.path)
        return KeyedInvocation(
            path=one.path,
            worker=one.start.asker,
            sha256=one.start.worker.sha256,
            model=one.start.model,
            delegation_key=one.start.content_key,
            called_by=one.start.called_by,
            turns=tuple(keyed_turn(turn, below, self.functions_of(one)) for turn in one.turns),
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
    account = await read_desk(run, _each(events))
    record = RunRecord(run, execution.execution.run_id, reader.started, reader.loaded, questions=account.questions)
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


def keyed_turn(
    turn: AnsweredTurn, below: dict[str, list[str]] | None = None, functions: frozenset[str] = frozenset()
) -> KeyedTurn:
    """Return the turn without contents.

    `below` has the paths of the invocations that calls began, by call key; `functions` the names of the author's.
    """
    usage = cast("dict[str, Any]", turn.answer.get("usage") or {})
    cost = usage.get("cost")
    return KeyedTurn(
        number=turn.number,
        key=turn.key,
        model=str(turn.answer.get("model_name") or ""),
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cached_tokens=int(usage.get("cache_read_tokens") or 0),
        cost=None if cost is None else Decimal(str(cost)),
        calls=tuple(
            KeyedCall(
                key=call.key,
                tool=call.tool,
                number=call.number,
                known=call.outcome is not None and not call.lost,
                children=tuple((below or {}).get(call.key, ())),
                of_function=call.tool in functions,
            )
            for call in turn.calls
        ),
    )


def _keyed_question(question: Question) -> KeyedQuestion:
    verdict = question.verdict
    return KeyedQuestion(
        id=question.id,
        path=question.request.path,
        tool=question.request.tool,
        content_key=question.request.content_key,
        decision="" if verdict is None else verdict.decision.value,
        by_person=verdict is not None and verdict.door in _PERSON,
        is_review=question.request.review is not None,
    )


def _order(path: str) -> list[tuple[str, int]]:
    """Return a path as paths are ordered: by names, and those of the same worker by their numbers."""
    found: list[tuple[str, int]] = []
    for part in path.split("/"):
        name, _, number = part.rpartition("-")
        found.append((name, int(number)) if name and number.isdigit() else (part, 0))
    return found


async def _each(events: Sequence[HistoryEvent]) -> AsyncIterator[HistoryEvent]:
    for event in events:
        yield event
