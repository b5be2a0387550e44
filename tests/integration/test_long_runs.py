"""A run whose own workflow was continued as new: one run, everywhere it is listed."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import WorkflowExecution

from llm_do_temporal.client.views.run_list import list_runs, read_run
from llm_do_temporal.client.views.tree import Accounts, list_tree
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM
from tests.support.runs.place import Place


async def executions(place: Place, run: str) -> list[WorkflowExecution]:
    """All executions of the run's workflow that the server lists, the first one first."""
    listed = place.client.temporal.list_workflows(f"WorkflowId = '{run}'")
    return sorted([one async for one in listed], key=lambda one: one.start_time)


async def ended_executions(place: Place, run: str) -> list[WorkflowExecution]:
    """All executions, once all three or more are listed as closed; lists are a bit late."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await executions(place, run)
            if len(found) > 2 and all(one.close_time is not None for one in found):
                return found
            await asyncio.sleep(0.05)


async def test_it_is_listed_once_with_its_first_start_and_its_whole_usage(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", 3)
    place.write("a.txt", "a")
    reads = [call("read_file", path="/a.txt") for _ in range(8)]
    place.worker("leaf", scripted("Leaf."))
    toolsets = FILESYSTEM | delegation_to("leaf")
    place.worker("main", scripted(call("leaf", input="go"), *reads, "Done."), toolsets=toolsets)
    run = await place.start("main", mode="approve_all")
    usage = (await place.client.result(run)).usage
    temporal = place.client.temporal

    first, *_, last = await ended_executions(place, run)
    (listed,) = (await list_runs(temporal, RunFilter(begins=run))).runs
    assert (listed.status, listed.run_id, listed.started_at) == ("completed", last.run_id, first.start_time)
    assert (await read_run(temporal, run)).started_at == first.start_time
    (summary,) = [one for one in await place.client.runs() if one.run == run]
    assert (summary.status, summary.started_at) == ("completed", first.start_time)
    (root,) = await list_tree(temporal, run)
    assert (root.path, root.worker, root.status, root.run_id) == ("main", "main", "completed", last.run_id)
    assert root.started_at == first.start_time
    assert [child.path for child in root.children] == ["main/leaf-1"]
    spent = await Accounts(temporal).read_one(root, whole=True)
    assert spent.total == usage
    assert spent.own is not None
    assert spent.own.requests == usage.requests - 1
