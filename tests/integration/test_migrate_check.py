"""Whether the installed code would go on with what is open: what a change of workflow code does to parked runs."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio import workflow

from llm_do_temporal.service import build_replayer
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.run import LlmDoRun
from llm_do_temporal.workflows.worker import LlmDoWorker
from tests.integration.conftest import Place
from worker_service.migrate_check import Checked, check_open_runs


async def check(place: Place) -> Checked:
    return await check_open_runs(place.client.temporal, build_replayer(place.folder))


def plant(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, patch: str | None) -> None:
    """Let the method wait first; with `patch`, only in runs that begin with the changed code."""
    original: Any = getattr(kind, method)

    async def waiting_first(self: Any, *args: Any) -> Any:
        if patch is None or workflow.patched(patch):
            await workflow.sleep(60)
        return await original(self, *args)

    monkeypatch.setattr(kind, method, waiting_first)


@pytest.mark.parametrize(
    ("kind", "method", "below"), [(LlmDoRun, "_load", ""), (LlmDoWorker, "_run_agent", "/main")], ids=["run", "worker"]
)
async def test_an_incompatible_change_is_caught_and_a_compatible_one_passes(
    place: Place, kind: type, method: str, below: str
) -> None:
    place.worker("main", scripted(call("write_file", path="/a.txt", content="a"), "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    await place.pending(run)
    unchanged = await check(place)
    assert unchanged.troubles == ()
    assert unchanged.workflows >= 2
    with pytest.MonkeyPatch.context() as monkeypatch:
        plant(monkeypatch, kind, method, "planted")
        assert (await check(place)).troubles == ()
    with pytest.MonkeyPatch.context() as monkeypatch:
        plant(monkeypatch, kind, method, None)
        troubles = [one for one in (await check(place)).troubles if one.workflow.startswith(run)]
    assert [(one.workflow, one.diverges) for one in troubles] == [(run + below, True)]
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
