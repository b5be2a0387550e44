"""Histories: those that change under the eyes of a reader, and the entry invocation beside what is the run's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.history.events import ENDS, first_object, local_effect, put_back, read_events
from llm_do_temporal.client.history.invocations import Beginning, Beginnings
from llm_do_temporal.client.history.questions import news_at_desk, news_at_invocation
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_view import Node
from llm_do_temporal.client.views.transcripts import Transcriber
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.messages.activities import LOAD_RUN, NOTIFY, RECORD_AT_DESK
from llm_do_temporal.messages.base import DELIVER_DECISION_SIGNAL, REQUEST_APPROVAL_SIGNAL, RUN_WORKFLOW
from llm_do_temporal.messages.runs import Batch, BatchItem, InvokeWorkerInput, StartRunInput
from llm_do_temporal.storage.blobs import BlobStore, LocalBlobStore
from llm_do_temporal.storage.external_storage import REFERENCE_TYPE, keeping_big_payloads
from tests.support.runs.histories import marker, read_history

HISTORIES = Path(__file__).parents[2] / "replay" / "histories"


def events(name: str) -> list[HistoryEvent]:
    """The events of a recorded history."""
    return list(read_history(HISTORIES / f"0.1.0-{name}.json.gz").events)


def beginnings(told: list[HistoryEvent]) -> list[tuple[HistoryEvent, Beginning]]:
    """The events with which an invocation begins."""
    reader = Beginnings()
    return [(event, begun) for event in told if (begun := reader.take(event)) is not None]


def payloads(value: Any) -> Payloads:
    return Payloads(payloads=pydantic_data_converter.payload_converter.to_payloads([value]))


def with_start(told: list[HistoryEvent], **changes: Any) -> list[HistoryEvent]:
    """The events of a run that was started otherwise."""
    started = told[0].workflow_execution_started_event_attributes
    given = first_object(started.input.payloads) | changes
    started.input.CopyFrom(payloads(given))
    return told


def loading_of(told: list[HistoryEvent]) -> HistoryEvent:
    """The event that has the result of the loading of the entry worker."""
    return next(event for event in told if (local := local_effect(event)) and local.activity == LOAD_RUN.name)


def result_in(event: HistoryEvent) -> Payloads:
    return event.marker_recorded_event_attributes.details["result"]


def test_it_begins_once_its_worker_is_loaded_with_the_start_that_a_child_would_have() -> None:
    told = events("modify/run-1")
    ((event, begun),) = beginnings(told)
    assert event is loading_of(told)
    entry = InvokeWorkerInput.model_validate(begun.given)
    assert (entry.path, entry.depth, entry.prompt, entry.worker.instructions.strip()) == ("main", 0, "go", "Do it.")
    assert entry.run == told[0].workflow_execution_started_event_attributes.workflow_id
    assert (begun.before, begun.is_outside, begun.continued) == (None, False, {})


def test_it_begins_where_loading_took_an_activity_of_its_own() -> None:
    told = events("modify/run-1")
    place = told.index(loading_of(told))
    ((_, expected),) = beginnings(told)
    scheduled, completed = HistoryEvent(event_id=901), HistoryEvent(event_id=903)
    scheduled.activity_task_scheduled_event_attributes.activity_type.name = LOAD_RUN.name
    completed.activity_task_completed_event_attributes.scheduled_event_id = 901
    completed.activity_task_completed_event_attributes.result.CopyFrom(result_in(told[place]))
    # The attempt within the task is given up, and says so.
    told[place : place + 1] = [marker(LOAD_RUN.name, failed=True), scheduled, completed]
    assert beginnings(told) == [(completed, expected)]


def test_an_entry_worker_that_is_kept_elsewhere_begins_with_the_facts_of_its_memo() -> None:
    told = events("modify/run-1")
    result_in(loading_of(told)).payloads[0].metadata["messageType"] = REFERENCE_TYPE
    ((event, begun),) = beginnings(told)
    assert event.event_type == EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED
    assert (begun.given["path"], begun.given["worker"], begun.is_outside) == ("main", "main", True)
    transcriber = Transcriber()
    assert next(entry.kind for each in told for entry in transcriber.apply(each)) == "prompt"


def test_a_run_that_is_refused_and_a_batch_have_no_entry_invocation() -> None:
    assert beginnings(with_start(events("modify/run-1"), depth=99)) == []
    assert beginnings(with_start(events("modify/run-1"), worker=None)) == []
    assert beginnings(events("batch/run-1")) == []


def test_a_later_run_of_the_workflow_begins_at_once_with_what_it_took_along() -> None:
    told = events("continued/run-1")
    ((event, begun),) = beginnings(told)
    assert event is told[0]
    assert begun.before == event.workflow_execution_started_event_attributes.continued_execution_run_id
    assert (begun.given["path"], begun.continued["usage"]["requests"] > 0) == ("main", True)


def test_a_child_begins_with_its_workflow() -> None:
    told = events("failed-child/run-1.main.sage-1")
    ((event, begun),) = beginnings(told)
    assert event is told[0]
    assert begun.given["path"] == "main/sage-1"


def test_what_is_the_runs_own_is_no_effect_of_the_entry_invocation() -> None:
    told = events("modify/run-1")
    node = Node("run-1")
    seen = [one for event in told for one in node.apply(event)]
    own = {LOAD_RUN.name, NOTIFY.name, RECORD_AT_DESK.name}
    assert own & {local.activity for event in told if (local := local_effect(event)) is not None}
    effects = [one.data["activity"] for one in seen if one.type == "activity.started"]
    assert effects
    assert not own.intersection(effects)
    assert not any(own & set(line.split()) for line in node.doing.values())


def test_an_activity_of_the_run_that_fails_is_told_of_by_nobody() -> None:
    node = Node("run-1")
    for event in events("modify/run-1")[:-1]:
        node.apply(event)
    scheduled, failed = HistoryEvent(event_id=901), HistoryEvent(event_id=903)
    scheduled.activity_task_scheduled_event_attributes.activity_type.name = NOTIFY.name
    failed.activity_task_failed_event_attributes.scheduled_event_id = 901
    assert node.apply(scheduled) == node.apply(failed) == []


@pytest.mark.parametrize("name", [DELIVER_DECISION_SIGNAL, REQUEST_APPROVAL_SIGNAL])
def test_a_signal_that_somebody_sends_to_a_run_is_no_news_of_its_entry_invocation(name: str) -> None:
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
    event.workflow_execution_signaled_event_attributes.signal_name = name
    event.workflow_execution_signaled_event_attributes.input.CopyFrom(payloads({"key": "1", "id": "a1"}))
    assert news_at_invocation(event, is_entry=True) is None
    assert (news_at_invocation(event, is_entry=False) is None) is (name == REQUEST_APPROVAL_SIGNAL)
    assert (news_at_desk(event) is None) is (name == DELIVER_DECISION_SIGNAL)


@dataclass(frozen=True)
class Histories:
    """A server that has these histories, by the ids of their workflows."""

    told: Mapping[str, Sequence[HistoryEvent]]
    events: Sequence[HistoryEvent] = ()
    data_converter = pydantic_data_converter

    def get_workflow_handle(self, workflow_id: str, **_: object) -> Histories:
        """See Client."""
        return Histories(self.told, self.told[workflow_id])

    async def fetch_history_events(self, **_: object) -> AsyncIterator[HistoryEvent]:
        """See WorkflowHandle."""
        for event in self.events:
            yield event


async def followed(*names: str) -> tuple[Follower, list[tuple[str, str]]]:
    """A follower that has read all of it, and what it told: types and paths, in order."""
    recorded = {told[0].workflow_execution_started_event_attributes.workflow_id: told for told in map(events, names)}
    follower = Follower(cast("Any", Histories(recorded)), min(recorded, key=len), wait=False)
    told = sorted([event async for event in follower.events()], key=lambda event: event.order)
    return follower, [(event.type, event.path) for event in told]


async def test_a_run_and_its_entry_invocation_are_told_in_turn_from_one_history() -> None:
    follower, told = await followed("modify/run-1")
    assert [one for one in told if not one[0].startswith("activity.")] == [
        ("run.started", ""),
        ("invocation.started", "main"),
        ("turn.started", "main"),
        ("turn.completed", "main"),
        ("approval.requested", "main"),
        ("desk.changed", ""),
        ("approval.decided", "main"),
        ("desk.changed", ""),
        ("turn.started", "main"),
        ("turn.completed", "main"),
        ("invocation.completed", "main"),
        ("run.completed", ""),
    ]
    (node,) = follower.view.ordered
    assert (node.workflow_id, node.path, node.status) == (follower.view.run, "main", "completed")


async def test_those_below_hang_at_the_entry_invocation() -> None:
    follower, _ = await followed(
        "failed-child/run-1", "failed-child/run-1.main.broken-1", "failed-child/run-1.main.sage-1"
    )
    assert [node.path for node in follower.view.ordered] == ["main", "main/broken-1", "main/sage-1"]
    assert follower.view.delegations == (2, 2)
    entry = follower.view.ordered[0]
    assert follower.view.total_of(entry) == follower.view.usage


async def test_a_batch_is_its_items_and_nothing_else() -> None:
    follower, told = await followed("batch/run-1", "batch/run-1.main.item-1", "batch/run-1.main.item-2")
    assert [node.path for node in follower.view.ordered] == ["main/item-1", "main/item-2"]
    assert "main" not in {path for _, path in told}
    assert told[-1] == ("run.completed", "")


async def test_an_item_is_done_when_it_is_and_not_when_one_of_its_callees_is() -> None:
    begun = HistoryEvent(event_id=1, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
    started = begun.workflow_execution_started_event_attributes
    started.workflow_type.name = RUN_WORKFLOW
    started.input.CopyFrom(payloads(StartRunInput(worker="w", batch=Batch(items=(BatchItem(name="a"),)))))
    child = HistoryEvent(event_id=2, event_type=EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)
    child.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id = "r/main/item-1"
    item = HistoryEvent(event_id=1, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
    item.workflow_execution_started_event_attributes.workflow_type.name = "LlmDoWorker"
    callee = HistoryEvent(event_id=2, event_type=EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED)
    done = callee.child_workflow_execution_completed_event_attributes
    done.workflow_execution.workflow_id = "r/main/item-1/callee-1"
    done.result.CopyFrom(payloads({"output": "the callee's"}))
    end = HistoryEvent(event_id=3, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    end.workflow_execution_completed_event_attributes.result.CopyFrom(payloads({"output": "its own"}))

    server = cast("Any", Histories({"r": (begun, child), "r/main/item-1": (item, callee, end)}))
    told = [event async for event in Follower(server, "r", wait=False).events() if event.type.startswith("item.")]
    assert [(event.type, event.data["output"]) for event in told] == [("item.completed", "its own")]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_run_that_ends_before_its_worker_is_loaded_has_a_state_and_no_invocation(status: str) -> None:
    kind = next(kind for kind, name in ENDS.items() if name == status)
    node = Node("run-1")
    node.apply(events("modify/run-1")[0])
    assert node.apply(HistoryEvent(event_type=kind)) == []
    assert (node.status, node.started_at) == (status, None)


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
