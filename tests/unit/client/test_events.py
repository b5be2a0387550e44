"""Histories that change under the reader's eyes, or hold what cannot be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.history.events import put_back, read_events
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.storage.blobs import BlobStore, LocalBlobStore
from llm_do_temporal.storage.external_storage import REFERENCE_TYPE, keeping_big_payloads

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


BAD_REFERENCES: list[tuple[str, Any]] = [
    # how a payload says it is written that calls itself a reference, what is in it
    ("json/external-storage-reference", {}),
    ("json/external-storage-reference", []),
    ("json/external-storage-reference", None),
    ("json/external-storage-reference", {"driver_name": "llmdo-blobs"}),
    ("json/external-storage-reference", {"driver_name": "llmdo-blobs", "driver_claim": None}),
    ("json/external-storage-reference", {"driver_name": "llmdo-blobs", "driver_claim": {"claim_data": {"sha256": 7}}}),
    ("json/protobuf", []),
    ("json/protobuf", {"driverName": "another"}),
    ("json/protobuf", {"driverName": "llmdo-blobs", "claimData": {"sha256": "0" * 64}}),
    ("json/plain", {}),
]


def signal(encoding: str, reference: Any) -> HistoryEvent:
    """One with which somebody sends a reference."""
    metadata = {"encoding": encoding.encode(), "messageType": REFERENCE_TYPE}
    event = HistoryEvent(event_id=1, event_type=SIGNAL)
    sent = event.workflow_execution_signaled_event_attributes.input.payloads
    sent.append(Payload(metadata=metadata, data=json.dumps(reference).encode()))
    return event


@pytest.mark.parametrize(("encoding", "reference"), BAD_REFERENCES, ids=str)
async def test_a_reference_that_leads_nowhere_stays_one(tmp_path: Path, encoding: str, reference: Any) -> None:
    event, before = signal(encoding, reference), signal(encoding, reference)
    await put_back(event, keeping_big_payloads(PLAIN, LocalBlobStore(tmp_path)))
    assert event == before


async def test_a_store_that_does_not_answer_is_no_value_that_is_missing() -> None:
    class Down:
        def read(self, _sha256: str) -> bytes:
            raise BlobsUnreachable("it is down")

    event = signal("json/protobuf", {"driverName": "llmdo-blobs", "claimData": {"sha256": "0" * 64}})
    with pytest.raises(BlobsUnreachable):
        await put_back(event, keeping_big_payloads(PLAIN, cast("BlobStore", Down())))
