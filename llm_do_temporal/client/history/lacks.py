"""Toolsets, tools and files that an invocation does without, as its history has them.

Owns where they stand: with the definition of its worker, in the listings of its toolsets' tools, and with the answers
of models that did not get a file as it is.
"""

from __future__ import annotations

from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.payloads import as_object, first_object
from llm_do_temporal.messages.activities import LIST_EXTERNAL_TOOLS, REQUEST_MODEL
from llm_do_temporal.messages.conversation import NOT_GIVEN


class Lacks:
    """Finds what is missing in the events of one history, given in their order."""

    def __init__(self) -> None:
        self._listings: set[int] = set()
        self._turns: set[int] = set()
        self._files: set[str] = set()

    def take(self, event: HistoryEvent) -> list[str]:
        """Return the tools that the next event shows to be missing, each with the reason; empty for most events."""
        scheduled = event.activity_task_scheduled_event_attributes.activity_type.name
        if scheduled == LIST_EXTERNAL_TOOLS.name:
            self._listings.add(event.event_id)
        elif scheduled == REQUEST_MODEL.name:
            self._turns.add(event.event_id)
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id not in self._listings:
            return []
        toolsets: Any = first_object(completed.result.payloads).get("toolsets")
        found = cast("list[Any]", toolsets) if isinstance(toolsets, list) else []
        return [warning for toolset in found for warning in warnings_of(toolset)]

    def files(self, event: HistoryEvent) -> list[str]:
        """Return lines about files that the event's turn, and none before it, shows not to be given as they are."""
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id not in self._turns:
            return []
        lines: Any = as_object(first_object(completed.result.payloads).get("metadata")).get(NOT_GIVEN)
        told = list(map(str, cast("list[Any]", lines))) if isinstance(lines, list) else []
        new = [one for one in told if one not in self._files]
        self._files.update(new)
        return new


def warnings_of(found: Any) -> list[str]:
    """Return the warnings of a worker's definition, or of the listing of a toolset; both are JSON."""
    warnings: Any = as_object(found).get("warnings")
    return [str(one) for one in cast("list[Any]", warnings)] if isinstance(warnings, list) else []
