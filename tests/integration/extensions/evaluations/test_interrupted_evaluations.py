"""Experiments that are cancelled or terminated, on a real server: the next start goes on with all that they had."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from temporalio.client import WorkflowHandle

from llm_do_temporal.client.history.events import activity_of
from llm_do_temporal.extensions.evaluations.client import read_experiment, read_progress
from llm_do_temporal.extensions.evaluations.messages import JUDGE_CASE
from llm_do_temporal.extensions.evaluations.policy.spec import Threshold
from llm_do_temporal.testing import scripted
from tests.support.extensions.evaluations.begun import begun, evaluated
from tests.support.runs.place import Place


async def judged_once(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until an experiment has its first judgement."""
    judging = set[int]()
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.activity_task_scheduled_event_attributes.activity_type.name == JUDGE_CASE.name:
            judging.add(event.event_id)
        if event.HasField("activity_task_completed_event_attributes") and activity_of(event) in judging:
            return
    raise AssertionError("the experiment ended without a judgement")


async def interrupt(handle: WorkflowHandle[Any, Any], how: str) -> None:
    """Cancel or terminate an experiment, and wait for its end."""
    await (handle.cancel() if how == "cancelled" else handle.terminate("the machine is needed"))
    async for _ in handle.fetch_history_events(wait_new_event=True):
        pass


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["cancelled", "terminated"])
async def test_an_interrupted_experiment_goes_on_with_all_that_it_had(place: Place, how: str) -> None:
    free = asyncio.Event()

    async def greet(messages: list[ModelMessage]) -> str:
        if "bob" in str(messages[-1]):
            await free.wait()
        return "Hello!"

    model, judge = scripted(greet), scripted({"good": True})
    place.worker("main", model)
    schema = {"type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"]}
    place.worker("judge", judge, output_schema=schema)
    cases = [{"name": name, "inputs": f"greet {name}"} for name in ("ada", "bob")]
    keys: dict[str, Any] = {"cases": cases, "judge": "judge"}
    first = await begun(place, **keys)
    handle = place.client.temporal.get_workflow_handle(first.experiment)
    for rounds in (2, 3):
        # The second interruption comes before anything is new: what the first start had is not forgotten.
        if rounds == 2:
            await judged_once(handle)
        await interrupt(handle, how)
        assert (await read_progress(place.client.temporal, first.experiment))[0] == how
        if how == "cancelled":
            found = await read_experiment(place.client.temporal, first.experiment)
            assert not found.record.judged_by((Threshold(metric="missing", at_most=9),)).gate.passed
        if rounds == 3:
            free.set()
        again = await begun(place, **keys)
        assert (again.experiment, again.how, again.taken) == (first.experiment, "resumed", 1)
    _, record = await evaluated(place, **keys)
    assert (record.state, record.round, [one.case for one in record.results]) == ("completed", 3, ["ada", "bob"])
    assert [one.score("judge.good") for one in record.results] == [True, True]
    asked = [str(request.messages[-1]) for request in model.requests]
    assert (sum("ada" in text for text in asked), len(judge.requests)) == (1, 2)
