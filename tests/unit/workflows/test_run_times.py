"""A run waits for the next moment at which time changes something at its desk."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from llm_do_temporal.messages.approvals import DeskState
from llm_do_temporal.workflows.run.desk import RunDesk
from tests.support.workflow.desk_questions import NOON
from tests.support.workflow.fake_workflow import FakeWorkflow


@pytest.mark.parametrize(
    ("due", "timer"),
    [
        (NOON + timedelta(minutes=5), timedelta(minutes=5)),
        (datetime.max.replace(tzinfo=NOON.tzinfo), timedelta(days=365)),  # the server takes no timer of 8,000 years
    ],
)
async def test_a_timer_is_never_longer_than_a_year(
    fake_workflow: FakeWorkflow, due: datetime, timer: timedelta
) -> None:
    desk = RunDesk(DeskState())
    desk._due = due  # pyright: ignore[reportPrivateUsage] - set by the desk's loop from the questions
    assert await desk._has_come(due)  # pyright: ignore[reportPrivateUsage]
    assert fake_workflow.timers == [timer]


async def test_a_moment_that_is_past_needs_no_timer(fake_workflow: FakeWorkflow) -> None:
    assert await RunDesk(DeskState())._has_come(NOON)  # pyright: ignore[reportPrivateUsage]
    assert fake_workflow.timers == []


async def test_another_moment_is_waited_for_as_soon_as_it_is_the_next(fake_workflow: FakeWorkflow) -> None:
    desk = RunDesk(DeskState())  # which waits for none
    assert not await desk._has_come(NOON + timedelta(minutes=5))  # pyright: ignore[reportPrivateUsage]
