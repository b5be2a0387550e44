"""Workflow functions of Temporal for one test, without a server: signals are kept, and no wait takes time.

`fake_workflow` is the fixture. A wait with a timeout, and a sleep, end at once unless what is waited for happens first;
the clock then stands where it would stand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.common import Priority

from tests.support.workflow.desk_questions import NOON

_IDLE_TURNS = 25
"""Turns of the event loop after which nothing is going to happen any more by itself."""


@dataclass
class FakeInfo:
    """Facts about the workflow that is played, as far as they are asked for."""

    workflow_id: str = "r/main"
    first_execution_run_id: str = "first"
    start_time: datetime = NOON
    suggested: bool = False
    """Whether the server suggests to continue as new."""
    history_length: int = 10
    priority: Priority = field(default_factory=lambda: Priority(fairness_key="fair"))

    def is_continue_as_new_suggested(self) -> bool:
        """See temporalio."""
        return self.suggested

    def get_current_history_length(self) -> int:
        """See temporalio."""
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

    def external(self, workflow_id: str) -> FakeExternal:
        """Another workflow, which takes signals."""
        return FakeExternal(self, workflow_id)

    def signals_to(self, workflow_id: str) -> list[Any]:
        """Return the arguments of all signals to a workflow."""
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
    monkeypatch.setattr(workflow, "patched", _is_new)
    monkeypatch.setattr(workflow, "logger", logging.getLogger("fake-workflow"))
    monkeypatch.setattr(workflow, "cancellation_reason", lambda: None)
    monkeypatch.setattr(workflow, "get_external_workflow_handle", fake.external)
    return fake


def _is_new(_change: str) -> bool:
    return True


async def idle() -> None:
    """Let everything happen that happens by itself."""
    for _ in range(_IDLE_TURNS):
        await asyncio.sleep(0)
