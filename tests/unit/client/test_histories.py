"""Histories that change under the reader's eyes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.histories import read_events

STARTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
TASK = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
SIGNAL = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
PLAIN = DataConverter.default
SUPERSEDED = RPCError(
    "Current and request branch tokens, or current and request versioned transitions, don't match.",
    RPCStatusCode.INVALID_ARGUMENT,
    b"",
)


class Told:
    """A handle of a workflow whose history is told like this, one reading after another."""

    def __init__(self, *readings: list[tuple[int, EventType.ValueType] | RPCError]) -> None:
        self.readings = list(readings)

    async def fetch_history_events(self, *, wait_new_event: bool) -> AsyncIterator[HistoryEvent]:
        """The next reading."""
        assert wait_new_event
        for one in self.readings.pop(0):
            if isinstance(one, RPCError):
                raise one
            yield HistoryEvent(event_id=one[0], event_type=one[1])


async def read(told: Told) -> list[tuple[int, int]]:
    handle = cast("Any", told)
    return [(event.event_id, event.event_type) async for event in read_events(handle, wait=True, converter=PLAIN)]


async def test_reading_begins_anew_where_the_server_breaks_off_and_tells_nothing_twice() -> None:
    told = Told(
        [(1, STARTED), (2, TASK), SUPERSEDED],
        [(1, STARTED), SUPERSEDED],
        [(1, STARTED), (2, SIGNAL), (3, TASK)],
    )
    # What stood second was never written down: the signal that took its place is told.
    assert await read(told) == [(1, STARTED), (2, TASK), (2, SIGNAL), (3, TASK)]
    assert told.readings == []


@pytest.mark.parametrize("status", [RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT])
async def test_any_other_error_is_an_error(status: RPCStatusCode) -> None:
    with pytest.raises(RPCError, match="no such run"):
        await read(Told([(1, STARTED), RPCError("no such run", status, b"")]))
