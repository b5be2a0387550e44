"""Whether the installed code would go on with what is open: what a change of workflow code does to parked runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio import workflow

from llm_do_temporal.service.build import build_replayer
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation.workflow import LlmDoWorker
from llm_do_temporal.workflows.run.workflow import LlmDoRun
from tests.support.runs.place import Place
from worker_service.migrate_check import Checked, ReplayTrouble, check_open_runs

POLL_SECONDS = 0.05


async def check(place: Place, run: str) -> list[ReplayTrouble]:
    """What would become of the run and its invocation."""
    checked = await check_open_runs(place.client.temporal, build_replayer(place.folder))
    assert checked.workflows >= 2
    return [one for one in checked.troubles if one.workflow.startswith(run)]


async def listed(place: Place, run: str) -> None:
    """Wait until the server lists the run and its invocation: it does so a moment after they have begun."""
    query = f"ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{run}'"
    while True:
        if (await place.client.temporal.count_workflows(query)).count == 2:
            return
        await asyncio.sleep(POLL_SECONDS)


def plant(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, patch: str | None) -> None:
    """Let the method wait first; with `patch`, only in runs that begin with the changed code."""
    original: Any = getattr(kind, method)

    async def waiting_first(self: Any, *args: Any) -> Any:
        if patch is None or workflow.patched(patch):
            await workflow.sleep(60)
        return await original(self, *args)

    monkeypatch.setattr(kind, method, waiting_first)


async def broken(*_: Any) -> None:
    """In the place of a method of a workflow."""
    raise ValueError("broken by a change")


async def test_an_incompatible_change_is_caught_and_a_compatible_one_passes(place: Place) -> None:
    place.worker("main", scripted(call("write_file", path="/a.txt", content="a"), "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    await place.pending(run)
    await listed(place, run)
    assert await check(place, run) == []
    elsewhere = await check_open_runs(place.client.temporal, build_replayer(place.folder), "another's")
    assert elsewhere == Checked(0, ())
    for kind, method, workflow_id in ((LlmDoRun, "_load", run), (LlmDoWorker, "_run_agent", f"{run}/main")):
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(monkeypatch, kind, method, "planted")
            assert await check(place, run) == []
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(monkeypatch, kind, method, None)
            (trouble,) = await check(place, run)
            assert (trouble.workflow, trouble.diverges) == (workflow_id, True)
            assert "Nondeterminism" in trouble.reason
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(kind, method, broken)
            assert await check(place, run) == [ReplayTrouble(workflow_id, diverges=False, reason="broken by a change")]
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
