"""Events of a run as JSON: the shape of `-o jsonl`, and of every door that passes events on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from llm_do_temporal.client.views.run_view import ViewEvent
from llm_do_temporal.redaction.configured_keys import without_keys

EVENT_VERSION = 1
ENDS = frozenset(f"run.{status}" for status in ("completed", "failed", "cancelled", "terminated", "timed out"))
"""Types of events that end a run. They have no number: who reads events gets the result instead."""


def event_time(at: datetime) -> str:
    """Return a time in UTC as events have it, like `2026-11-01T08:30:00.125Z`."""
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def event_json(event: ViewEvent, seq: int) -> dict[str, Any]:
    """Return the event as JSON, with its number among the events of its run, the first of which is 1."""
    fixed = {"ts": event_time(event.at), "type": event.type, "path": event.path}
    shown = {"v": EVENT_VERSION, "seq": seq} | fixed
    return shown | {name: without_keys(value) for name, value in event.data.items() if name not in shown}
