"""Whether the installed code would go on with what is open: what a change of workflow code does to parked runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio import workflow

from llm_do_temporal.service.build import build_replayer
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation.invocation import Invocation
from llm_do_temporal.workflows.run.workflow import LlmDoRun
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place
from worker_service.migrate_check import Checked, ReplayTrouble, check_open_runs

POLL_SECONDS = 0.05


async def check(place: Place, run: str) -> list[ReplayTrouble]:
    """What would become of the run and its child, in this order."""
    checked = await check_open_runs(place.client.temporal, build_replayer(place.folder))
    assert checked.workflows >= 2
    return sorted((one for one in checked.troubles if one.workflow.startswith(run)), key=lambda one: one.workflow)


async def listed(place: Place, run: str) -> None:
    """Wait until the server lists the run and its child: it does so a moment after they have begun."""
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
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("child", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
    place.worker("main", scripted(call("child", input="go"), "Done."), toolsets=delegation_to("child"))
    run = await place.start("main")
    await place.pending(run)
    await listed(place, run)
    assert await check(place, run) == []
    elsewhere = await check_open_runs(place.client.temporal, build_replayer(place.folder), "another's")
    assert elsewhere == Checked(0, ())
    both = [run, f"{run}/main/child-1"]
    for kind, method, concerned in ((LlmDoRun, "_load", [run]), (Invocation, "run", both)):
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(monkeypatch, kind, method, "planted")
            assert await check(place, run) == []
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(monkeypatch, kind, method, None)
            troubles = await check(place, run)
            assert [(trouble.workflow, trouble.diverges) for trouble in troubles] == [(one, True) for one in concerned]
            assert all("Nondeterminism" in trouble.reason for trouble in troubles)
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(kind, method, broken)
            broken_by = "broken by a change"
            assert await check(place, run) == [
                ReplayTrouble(one, diverges=False, reason=broken_by) for one in concerned
            ]
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
