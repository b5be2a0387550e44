"""Histories that earlier code recorded must replay on this code."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import WorkflowHistory
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from llm_do_temporal.service.build import build_replayer
from llm_do_temporal.service.workflow_runner import WorkflowRunner
from scripts.record_histories import FEATURES
from tests.support.runs.histories import read_history

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*/*.json*"))


_PINNED = {"fork": ("review",)}
"""Further capabilities that the runs of a feature have in their settings."""


def _needed(feature: str) -> list[pytest.MarkDecorator]:
    """Marks of the capabilities that record the histories of a feature, or may have a part in their runs."""
    folders = FEATURES.get(feature, "").split("/")
    return [pytest.mark.extension(folders[1], *_PINNED.get(feature, ()))] if folders[0] == "extensions" else []


@pytest.mark.parametrize("feature", [pytest.param(one, marks=_needed(one)) for one in FEATURES])
def test_every_feature_has_a_history(feature: str) -> None:
    assert any(path.parent.name.partition("-")[2] == feature for path in HISTORIES)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=f"{path.parent.name}/{path.name}", marks=_needed(path.parent.name.partition("-")[2]))
        for path in HISTORIES
    ],
)
async def test_a_stored_history_replays(path: Path) -> None:
    result = await build_replayer().replay_workflow(read_history(path))
    assert result.replay_failure is None


async def test_a_changed_history_does_not_replay() -> None:
    path = next(path for path in HISTORIES if path.parent.name.endswith("-files"))
    changed = json.loads(read_history(path).to_json())
    for event in changed["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes")
        if scheduled is not None:
            scheduled["activityType"]["name"] = "renamed"
    history = WorkflowHistory.from_json("changed", changed)
    result = await build_replayer().replay_workflow(history, raise_on_replay_failure=False)
    assert result.replay_failure is not None


async def test_a_replay_that_gets_no_processor_has_not_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    create = WorkflowRunner.create_instance
    starved: list[str] = []

    def create_starved(runner: WorkflowRunner, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance: Any = create(runner, det)
        activate = instance.activate

        def activate_late(act: WorkflowActivation) -> WorkflowActivationCompletion:
            if not starved:
                starved.append(det.info.workflow_id)
                time.sleep(3)  # the SDK waits for 2 s
            return activate(act)

        instance.activate = activate_late
        return instance

    monkeypatch.setattr(WorkflowRunner, "create_instance", create_starved)
    path = next(path for path in HISTORIES if path.parent.name.endswith("-files"))
    result = await build_replayer().replay_workflow(read_history(path))
    assert (result.replay_failure, len(starved)) == (None, 1)
