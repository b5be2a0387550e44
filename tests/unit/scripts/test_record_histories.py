"""Histories are recorded once, under names that stay, and never written anew."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionFailedEventAttributes
from temporalio.api.history.v1 import WorkflowExecutionStartedEventAttributes as Started
from temporalio.client import WorkflowHistory

from llm_do_temporal import __version__
from scripts.record_histories import record
from tests.support.runs.histories import read_history, write_histories


def history(workflow_id: str) -> WorkflowHistory:
    """A history that ended with a failure."""
    failed = WorkflowExecutionFailedEventAttributes()
    failed.failure.message = "no"
    failed.failure.stack_trace = "/home/ada/llm_do.py"
    return WorkflowHistory(
        workflow_id,
        [
            HistoryEvent(workflow_execution_started_event_attributes=Started(workflow_id=workflow_id)),
            HistoryEvent(workflow_execution_failed_event_attributes=failed),
        ],
    )


def test_names_are_made_from_paths_and_not_from_ids(tmp_path: Path) -> None:
    ids = ("main-1a2b", "main-1a2b/main", "main-1a2b/main", "main-1a2b/main/sage-1", "main-3c4d")
    write_histories([history(one) for one in ids], tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "run-1.json.gz",
        "run-1.main.before-1.json.gz",
        "run-1.main.json.gz",
        "run-1.main.sage-1.json.gz",
        "run-2.json.gz",
    ]


def test_a_history_is_read_as_it_was_but_for_stack_traces(tmp_path: Path) -> None:
    write_histories([history("main-1a2b/main")], tmp_path / "new")
    (path,) = (tmp_path / "new").iterdir()
    found = read_history(path)
    assert found.workflow_id == "main-1a2b/main"
    assert found.events[1].workflow_execution_failed_event_attributes.failure.message == "no"
    assert b"ada" not in gzip.decompress(path.read_bytes())


def test_what_is_stored_is_left_as_it_is(tmp_path: Path) -> None:
    stored = tmp_path / f"{__version__}-shell"
    stored.mkdir()
    assert record({"shell": "test_shell.py::test_nothing"}, tmp_path) == []
    assert list(stored.iterdir()) == []


@pytest.mark.thorough
def test_where_a_test_fails_nothing_is_stored(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="nothing was recorded"):
        record({"shell": "test_shell.py::test_nothing"}, tmp_path)
    assert list(tmp_path.iterdir()) == []
