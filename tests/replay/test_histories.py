"""Histories that earlier code recorded must replay on this code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from llm_do_temporal.service import build_replayer

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*/*.json"))


def _stored(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text(encoding="utf-8"))


def test_there_are_histories() -> None:
    assert HISTORIES


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_a_stored_history_replays(path: Path) -> None:
    result = await build_replayer().replay_workflow(_stored(path))
    assert result.replay_failure is None


async def test_a_changed_history_does_not_replay() -> None:
    path = next(path for path in HISTORIES if path.stem == "recorded")
    changed = json.loads(_stored(path).to_json())
    for event in changed["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes")
        if scheduled is not None:
            scheduled["activityType"]["name"] = "renamed"
    history = WorkflowHistory.from_json("recorded", changed)
    result = await build_replayer().replay_workflow(history, raise_on_replay_failure=False)
    assert result.replay_failure is not None
