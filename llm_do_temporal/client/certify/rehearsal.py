"""Rehearsal of a run or an experiment from its start to its end: at a chosen event, a process is killed.

Owns the blow, and the reading of the histories. What is started, and what is left of it, is known to the subclasses.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError

from llm_do_temporal.client.certify.evidence import Evidence, Histories, Point, gather
from llm_do_temporal.client.certify.stage import Lane
from llm_do_temporal.client.history.events import ENDS
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.errors import ConnectionFailed, LlmDoError
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.base import DECIDE_SIGNAL, ENTRY_PATH
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.values import REPEAT

_BY = "certify"
_RETRY_SECONDS = 0.1
_AWAY = (RPCError, ConnectionFailed)
"""Errors that are raised while the server is away."""


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

        follower = Follower(self.lane.client.temporal, self.run, wait=False, tap=keep)
        async for _ in follower.events():
            pass
        self.models |= {node.model for node in follower.view.nodes.values() if node.model}
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
                doubt = _is_doubt(approval)
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


def _is_doubt(approval: Question) -> bool:
    return any(use.name == REPEAT for use in approval.request.capabilities)
