"""Workflows and events of a run: one workflow until it delegates, and nothing sent between it and itself."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType

from llm_do_temporal.activities import definitions
from llm_do_temporal.client.history.events import local_effect
from llm_do_temporal.definitions.workshop import Workshop, load_workshop
from llm_do_temporal.messages.activities import LOAD_RUN, PREVIEW_WRITE, RECORD_AT_DESK
from llm_do_temporal.messages.base import RUN_MEMO
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.runtime import activities
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

EXPECTED = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: 1,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED: 2,  # the entry invocation, and the question
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 1,  # that it waits
}


async def workflows(place: Place, run: str) -> list[str]:
    """Ids of all workflows that the history of the run leads to, in order."""
    return sorted({history.workflow_id for history in await place.histories() if history.workflow_id.startswith(run)})


async def test_a_run_that_delegates_nothing_is_one_workflow_and_signals_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine what is quick may take longer, and would be an activity then.
    monkeypatch.setattr(activities, "QUICK", timedelta(seconds=PATIENCE_SECONDS))
    run, _ = await start_parked(place, write_call(), "Done.")
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    assert {kind: kinds[kind] for kind in EXPECTED} == EXPECTED
    local = [effect.activity for effect in map(local_effect, history.events) if effect is not None]
    assert local == [LOAD_RUN.name, PREVIEW_WRITE.name, RECORD_AT_DESK.name]
    await place.decide(run)
    await place.client.result(run)
    assert await workflows(place, run) == [run]
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    assert not kinds[EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED]
    assert not kinds[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED]


async def test_what_is_delegated_is_a_workflow_of_its_own_and_asks_by_signal(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert asked.request.invocation == f"{run}/main/child-1"
    await place.decide(run)
    await place.client.result(run)
    assert await workflows(place, run) == [run, f"{run}/main/child-1"]
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    assert kinds[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED] == 1  # the question
    assert kinds[EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED] == 1  # its answer


async def test_a_run_is_called_by_the_first_line_of_its_prompt_whoever_starts_it(place: Place) -> None:
    place.worker("main", scripted("Done."))
    prompt = "\n  Tidy the garden \nand water it"
    bare = await place.start_raw({"worker": "main", "prompt": prompt})
    await place.client.result(bare)
    ours = await place.start("main", prompt)
    await place.client.result(ours)
    for run in (bare, ours):
        memo = await (await place.client.temporal.get_workflow_handle(run).describe()).memo()
        assert memo[RUN_MEMO]["task"] == "Tidy the garden"


def test_what_a_run_is_called_is_as_long_as_a_summary() -> None:
    assert RunMemo.of(StartRunInput(worker="main", prompt="x" * 1_000)).task == "x" * 200
    assert RunMemo.of(StartRunInput(worker="main", prompt=" \n\t")).task == ""


async def test_workflow_tasks_of_runs_and_children_time_out_after_five_seconds(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted("Done."))
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    await place.client.result(run)
    for workflow in await workflows(place, run):
        history = await place.client.temporal.get_workflow_handle(workflow).fetch_history()
        started = history.events[0].workflow_execution_started_event_attributes
        assert started.workflow_task_timeout.ToTimedelta() == timedelta(seconds=5)


async def test_what_takes_too_long_within_a_workflow_task_is_an_activity_then_and_in_every_replay(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture replays the history."""
    others: list[int] = []

    def slow_within_a_task(folder: Path) -> Workshop:
        if activity.info().is_local:
            activity.wait_for_cancelled_sync()
        else:
            others.append(activity.info().attempt)
        return load_workshop(folder)

    monkeypatch.setattr(activities, "QUICK", timedelta(milliseconds=100))
    monkeypatch.setattr(definitions, "load_workshop", slow_within_a_task)
    place.worker("main", scripted("Done."))
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Done."
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    assert scheduled.count(LOAD_RUN.name) == 1
    assert len(others) == 1
