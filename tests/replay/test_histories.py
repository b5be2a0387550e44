"""Histories that earlier code recorded must replay on this code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from llm_do_temporal.service.build import build_replayer
from scripts.record_histories import FEATURES
from tests.support.runs.histories import read_history

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*/*.json*"))


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_has_a_history(feature: str) -> None:
    assert any(path.parent.name.partition("-")[2] == feature for path in HISTORIES)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}/{path.name}")
async def test_a_stored_history_replays(path: Path) -> None:
    result = await build_replayer().replay_workflow(read_history(path))
    assert result.replay_failure is None


async def test_a_changed_history_does_not_replay() -> None:
    path = next(path for path in HISTORIES if path.stem == "recorded")
    changed = json.loads(read_history(path).to_json())
    for event in changed["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes")
        if scheduled is not None:
            scheduled["activityType"]["name"] = "renamed"
    history = WorkflowHistory.from_json("recorded", changed)
    result = await build_replayer().replay_workflow(history, raise_on_replay_failure=False)
    assert result.replay_failure is not None
