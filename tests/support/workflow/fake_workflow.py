"""Workflow functions of Temporal for one test, without a server: signals and upserts are kept, and no wait takes time.

`fake_workflow` is the fixture. A wait with a timeout, and a sleep, end at once unless what is waited for happens first;
the clock then stands where it would stand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.common import MetricMeter, Priority, SearchAttributePair, SearchAttributeUpdate, TypedSearchAttributes

from tests.support.workflow.desk_questions import NOON

_IDLE_TURNS = 25
"""Turns of the event loop after which nothing is going to happen any more by itself."""


@dataclass
class FakeInfo:
    """Facts about the workflow that is played, as far as they are asked for."""

    workflow_id: str = "r"
    first_execution_run_id: str = "first"
    start_time: datetime = NOON
    suggested: bool = False
    """Whether the server suggests to continue as new."""
    history_length: int = 10
    typed_search_attributes: TypedSearchAttributes = TypedSearchAttributes.empty
    priority: Priority = field(default_factory=lambda: Priority(fairness_key="fair"))

    def is_continue_as_new_suggested(self) -> bool:
        return self.suggested

    def get_current_history_length(self) -> int:
        return self.history_length


@dataclass
class FakeWorkflow:
    """A workflow that a test looks into; `refuses` takes a workflow's id where its signals fail."""

    now: datetime = NOON
    info: FakeInfo = field(default_factory=FakeInfo)
    slept: list[timedelta] = field(default_factory=list[timedelta])
    timers: list[timedelta] = field(default_factory=list[timedelta])
    """Timeouts of waits, whether they ran out or not."""
    signals: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """Workflow id, name and argument of every signal."""
    refuses: Callable[[str], BaseException | None] = lambda _: None
    recorded: list[Any] = field(default_factory=list[Any])
    """Arguments of local activities, in the order in which they began."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets local activities end; set from the start."""
    attributes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Search attributes of each upsert."""
    memos: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Memo of each upsert."""
    details: list[str] = field(default_factory=list[str])
    """Details, in the order in which they were shown."""

    def __post_init__(self) -> None:
        self.gate.set()

    async def sleep(self, duration: timedelta, *, summary: str | None = None) -> None:
        """Sleep no time, and set the clock forward."""
        assert summary
        self.slept.append(duration)
        self.now += duration
        await asyncio.sleep(0)

    async def wait_condition(
        self, fn: Callable[[], bool], *, timeout: timedelta | None = None, timeout_summary: str | None = None
    ) -> None:
        """Wait until it is true; a timeout is over as soon as nothing happens by itself any more."""
        del timeout_summary
        if timeout is not None:
            self.timers.append(timeout)
        turns = 0
        while not fn():
            turns += 1
            if timeout is not None and turns > _IDLE_TURNS:
                self.now += timeout
                raise TimeoutError
            await asyncio.sleep(0)

    def start_local_activity(self, _name: str, argument: Any, **_options: Any) -> asyncio.Task[Any]:
        """Begin an activity that returns its argument as soon as the gate is open."""
        self.recorded.append(argument)

        async def carry_out() -> Any:
            await self.gate.wait()
            return argument

        return asyncio.create_task(carry_out())

    def upsert_search_attributes(self, updates: Sequence[SearchAttributeUpdate[Any]]) -> None:
        """Keep the upsert, and show it in the workflow's info."""
        self.attributes.append({update.key.name: update.value for update in updates})
        known: dict[str, SearchAttributePair[Any]] = {
            pair.key.name: pair
            for pair in cast("Iterable[SearchAttributePair[Any]]", self.info.typed_search_attributes)
        }
        for update in updates:
            value: Any = update.value
            known[update.key.name] = SearchAttributePair(update.key, value)
        self.info.typed_search_attributes = TypedSearchAttributes(list(known.values()))

    def upsert_memo(self, updates: Mapping[str, Any]) -> None:
        self.memos.append(dict(updates))

    def external(self, workflow_id: str) -> FakeExternal:
        """Another workflow, which takes signals."""
        return FakeExternal(self, workflow_id)

    def signals_to(self, workflow_id: str) -> list[Any]:
        return [argument for receiver, _, argument in self.signals if receiver == workflow_id]


@dataclass
class FakeExternal:
    """Another workflow, as one that signals it sees it."""

    sender: FakeWorkflow
    workflow_id: str

    async def signal(self, signal: str, argument: Any) -> None:
        """Keep the signal, or fail."""
        failure = self.sender.refuses(self.workflow_id)
        if failure is not None:
            raise failure
        self.sender.signals.append((self.workflow_id, signal, argument))


@pytest.fixture
def fake_workflow(monkeypatch: pytest.MonkeyPatch) -> FakeWorkflow:
    """The workflow that code under test finds itself in."""
    fake = FakeWorkflow()
    monkeypatch.setattr(workflow, "now", lambda: fake.now)
    monkeypatch.setattr(workflow, "info", lambda: fake.info)
    monkeypatch.setattr(workflow, "sleep", fake.sleep)
    monkeypatch.setattr(workflow, "wait_condition", fake.wait_condition)
    monkeypatch.setattr(workflow, "wait", asyncio.wait)
    monkeypatch.setattr(workflow, "logger", logging.getLogger("fake-workflow"))
    monkeypatch.setattr(workflow, "cancellation_reason", lambda: None)
    monkeypatch.setattr(workflow, "get_external_workflow_handle", fake.external)
    monkeypatch.setattr(workflow, "start_local_activity", fake.start_local_activity)
    monkeypatch.setattr(workflow, "upsert_search_attributes", fake.upsert_search_attributes)
    monkeypatch.setattr(workflow, "upsert_memo", fake.upsert_memo)
    monkeypatch.setattr(workflow, "set_current_details", fake.details.append)
    monkeypatch.setattr(workflow, "metric_meter", lambda: MetricMeter.noop)
    return fake


async def idle() -> None:
    """Let everything happen that happens by itself."""
    for _ in range(_IDLE_TURNS):
        await asyncio.sleep(0)
