"""Toolsets and tools that an invocation does without, as its history has them.

Owns where they stand: with the definition of its worker, and in the listings of its toolsets' tools.
"""

from __future__ import annotations

from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.payloads import as_object, first_object
from llm_do_temporal.messages.activities import LIST_EXTERNAL_TOOLS


class Lacks:
    """Finds what is missing in the events of one history, given in their order."""

    def __init__(self) -> None:
        self._listings: set[int] = set()

    def take(self, event: HistoryEvent) -> list[str]:
        """Return what the next event shows to be missing, each with the reason; empty for most events."""
        if event.activity_task_scheduled_event_attributes.activity_type.name == LIST_EXTERNAL_TOOLS.name:
            self._listings.add(event.event_id)
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id not in self._listings:
            return []
        toolsets: Any = first_object(completed.result.payloads).get("toolsets")
        found = cast("list[Any]", toolsets) if isinstance(toolsets, list) else []
        return [warning for toolset in found for warning in warnings_of(toolset)]


def warnings_of(found: Any) -> list[str]:
    """Return the warnings of a worker's definition, or of the listing of a toolset; both are JSON."""
    warnings: Any = as_object(found).get("warnings")
    return [str(one) for one in cast("list[Any]", warnings)] if isinstance(warnings, list) else []
