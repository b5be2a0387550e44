"""Past calls as the recorded histories of real runs tell them: each with its answer, and nothing guessed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecution
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.errors import ConnectionFailed, KeyMismatch
from llm_do_temporal.extensions.rules.trial import CallAnswer, PastCall, PastCallReader, past_calls_of
from llm_do_temporal.messages.base import RUN_MEMO
from llm_do_temporal.messages.runs import RunMemo
from tests.support.runs.histories import read_history

HISTORIES = Path(__file__).parents[3] / "replay" / "histories"
ALWAYS = datetime(2020, 1, 1, tzinfo=UTC)


def recorded(name: str) -> Sequence[HistoryEvent]:
    """The events of a recorded run."""
    return read_history(HISTORIES / f"0.1.0-{name}.json.gz").events


async def told(events: Sequence[HistoryEvent]) -> AsyncIterator[HistoryEvent]:
    for event in events:
        yield event


async def calls_in(name: str) -> tuple[PastCall, ...]:
    """The past calls of a recorded run."""
    return await past_calls_of("run", told(recorded(name)))


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("approval-by-signal/run-1", ["approved"]),
        ("modify/run-1", ["modified"]),
        ("remembered/run-1", ["rejected", "remembered", "program"]),
        ("deadline/run-1", ["expired", "expired"]),
        ("quorum/run-1", ["modified"]),
    ],
)
async def test_a_call_has_the_answer_that_it_got(name: str, answers: list[str]) -> None:
    assert [call.answer for call in await calls_in(name)] == answers


async def test_only_a_person_counts_as_somebody() -> None:
    rejected, remembered, _ = await calls_in("remembered/run-1")
    assert (rejected.answer.is_of_person, rejected.answer.is_against) == (True, True)
    assert (remembered.answer.is_of_person, remembered.answer.is_against, remembered.by) == (False, False, "")
    (changed,) = await calls_in("modify/run-1")
    assert changed.answer.is_against


async def test_a_worker_of_the_run_and_one_that_it_calls_have_the_definition_that_they_had() -> None:
    calls = [*await calls_in("shell/run-1"), *await calls_in("deadline/run-1")]
    askers = [call.asker for call in calls]
    assert all(asker is not None and len(asker.sha256) == 64 for asker in askers)
    assert askers[0] is not None
    assert askers[0].shell is not None
    assert {call.question.request.path.count("/") for call in calls} == {0, 1}


async def test_what_a_history_does_not_have_is_unknown() -> None:
    events = [event for event in recorded("modify/run-1") if not _tells_definition(event)]
    (call,) = await past_calls_of("run", told(events))
    assert call.asker is None
    assert "definition" in call.unknown
    known = (await calls_in("modify/run-1"))[0]
    assert known.unknown == frozenset()
    bare = known.question.request.model_copy(update={"files": ()})
    assert PastCall(_asked_so(known, bare), known.asker).unknown == {"files"}


def _tells_definition(event: HistoryEvent) -> bool:
    marker = event.marker_recorded_event_attributes
    return any(b"load_run" in payload.data for one in marker.details.values() for payload in one.payloads)


def _asked_so(call: PastCall, request: Any) -> Any:
    from dataclasses import replace

    return replace(call.question, request=request)


class Server:
    """A server with runs that are recorded, or fail with an error when they are read."""

    data_converter = pydantic_data_converter

    def __init__(self, **runs: str | Exception) -> None:
        self.runs = runs
        self.queries: list[str] = []
        self.read: list[str] = []
        self.open: set[str] = set()

    async def list_workflows(self, query: str, *, page_size: int) -> AsyncIterator[WorkflowExecution]:
        """See Client."""
        assert page_size > 0
        self.queries.append(query)
        for run in self.runs:
            info = WorkflowExecutionInfo()
            info.execution.workflow_id, info.execution.run_id = run, f"id-{run}"
            (memo,) = await self.data_converter.encode([RunMemo(worker="clerk", task=f"the task of {run}")])
            info.memo.fields[RUN_MEMO].CopyFrom(memo)
            status = "RUNNING" if run in self.open else "COMPLETED"
            info.status = WorkflowExecutionStatus.Value(f"WORKFLOW_EXECUTION_STATUS_{status}")
            yield WorkflowExecution._from_raw_info(info, "default", self.data_converter)  # pyright: ignore[reportPrivateUsage]

    def get_workflow_handle(self, run: str, *, run_id: str | None = None) -> Any:
        """See Client."""
        server = self

        class Handle:
            async def fetch_history_events(self, **_: Any) -> AsyncIterator[HistoryEvent]:
                server.read.append(run)
                recording = server.runs[run]
                if isinstance(recording, Exception):
                    raise recording
                for event in recorded(recording):
                    yield event

        return Handle()


def reader(server: Server) -> PastCallReader:
    return PastCallReader(cast("Any", server))


async def test_the_calls_of_all_runs_are_in_the_order_in_which_they_asked() -> None:
    server = Server(b="remembered/run-1", a="modify/run-1")
    found = await reader(server).read(ALWAYS)
    assert found.runs == 2
    assert len(found.calls) == 4
    assert [call.asked_at for call in found.calls] == sorted(call.asked_at for call in found.calls)
    assert {(call.run, call.task) for call in found.calls} == {("a", "the task of a"), ("b", "the task of b")}


async def test_only_what_was_asked_since_then_counts() -> None:
    server = Server(a="remembered/run-1")
    calls = (await reader(server).read(ALWAYS)).calls
    later = await reader(server).read(calls[1].asked_at)
    assert [call.question.id for call in later.calls] == [call.question.id for call in calls[1:]]
    assert (await reader(server).read(calls[-1].asked_at + timedelta(seconds=1))).calls == ()


async def test_the_server_is_asked_for_runs_that_are_open_or_ended_since_then() -> None:
    server = Server()
    await reader(server).read(datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert "CloseTime >= '2026-03-01T12:00:00.000000Z'" in server.queries[0]
    assert "ExecutionStatus = 'Running'" in server.queries[0]
    assert "TaskQueue" not in server.queries[0]
    await PastCallReader(cast("Any", server), task_queue="it's").read(ALWAYS)
    assert "TaskQueue = 'it''s'" in server.queries[1]


async def test_a_run_that_cannot_be_read_hides_no_other_and_is_named() -> None:
    gone = RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
    found = await reader(Server(a=KeyMismatch("no key", key="k"), b=gone, c="modify/run-1")).read(ALWAYS)
    assert (found.runs, found.locked, [call.run for call in found.calls]) == (1, ("a",), ["c"])


async def test_a_server_that_does_not_answer_is_said() -> None:
    away = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    with pytest.raises(ConnectionFailed):
        await reader(Server(a=away, b="modify/run-1")).read(ALWAYS)


async def test_no_more_runs_are_read_than_wanted() -> None:
    server = Server(a="modify/run-1", b="modify/run-1", c="modify/run-1")
    found = await reader(server).read(ALWAYS, limit=2)
    assert (found.runs, found.is_cut, set(server.read)) == (2, True, {"a", "b"})
    assert not (await reader(server).read(ALWAYS, limit=3)).is_cut


async def test_the_history_of_a_run_that_has_ended_is_read_once() -> None:
    server = Server(a="modify/run-1", b="remembered/run-1")
    server.open = {"b"}
    reading = reader(server)
    first = await reading.read(ALWAYS)
    server.read.clear()
    second = await reading.read(ALWAYS)
    assert set(server.read) == {"b"}
    assert [call.question.id for call in second.calls] == [call.question.id for call in first.calls]


def test_every_answer_says_whether_it_was_a_persons() -> None:
    of_person = {answer for answer in CallAnswer if answer.is_of_person}
    assert of_person == {CallAnswer.APPROVED, CallAnswer.REJECTED, CallAnswer.MODIFIED}
    assert {answer for answer in CallAnswer if answer.is_against} < of_person
