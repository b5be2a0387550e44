"""Histories as files: what an integration test made, for later versions to replay."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

RECORD_TO = "LLM_DO_RECORD_HISTORIES"
"""The variable that names the folder in which each test gets a folder for its histories."""


def record_histories(histories: Iterable[WorkflowHistory]) -> None:
    """Write the histories of the present test, where `RECORD_TO` asks for it.

    A chain that was continued as new has its newest history first.
    """
    if RECORD_TO in os.environ:
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].rpartition("::")[2]
        write_histories(histories, Path(os.environ[RECORD_TO]) / test)


def write_histories(histories: Iterable[WorkflowHistory], folder: Path) -> None:
    """Write each history into a new folder, under a name without its run's random id."""
    folder.mkdir(parents=True)
    roots: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for history in histories:
        root, *below = history.workflow_id.split("/")
        name = ".".join([f"run-{roots.setdefault(root, len(roots) + 1)}", *below])
        before = f".before-{seen[name]}" if seen[name] else ""
        seen[name] += 1
        text = json.dumps(json.loads(history.to_json(), object_hook=_without_trace), indent=1) + "\n"
        (folder / f"{name}{before}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def marker(activity: str, result: Any = None, *, failed: bool = False) -> HistoryEvent:
    """The event that a local activity leaves."""
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_MARKER_RECORDED)
    attributes = event.marker_recorded_event_attributes
    attributes.marker_name = "core_local_activity"
    for name, value in (("data", {"activity_type": activity}), ("result", result)):
        payloads = pydantic_data_converter.payload_converter.to_payloads([value])
        attributes.details[name].CopyFrom(Payloads(payloads=payloads))
    if failed:
        attributes.failure.message = "it failed"
    return event


def _without_trace(value: dict[str, Any]) -> dict[str, Any]:
    """An object without its stack trace: no replay reads it, and it names files of this machine."""
    return {key: below for key, below in value.items() if key != "stackTrace"}


def read_history(path: Path) -> WorkflowHistory:
    """A stored history, under the id its workflow had, which the ids of its children are made from."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    history = WorkflowHistory.from_json(path.name, text)
    return WorkflowHistory(history.events[0].workflow_execution_started_event_attributes.workflow_id, history.events)
