"""Parts that requests to models add to a conversation: results of tools, and messages of the loop itself.

A request may be sent again, to another model or in a new history of the same conversation; its parts are told once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.payloads import first_object, shortened
from llm_do_temporal.messages.activities import KEEP_CONVERSATION, REQUEST_MODEL
from llm_do_temporal.storage.external_storage import is_kept_outside
from llm_do_temporal.telemetry.contents import (
    arguments_of,
    conversation_part,
    new_messages,
    request_messages,
    scrubbed,
    told_parts,
)


class RequestParts:
    """Finds the parts in the events of one history of an invocation, given in their order."""

    def __init__(self) -> None:
        self._told: set[int] = set()
        """The requests whose parts were told."""

    def take(self, event: HistoryEvent) -> list[dict[str, Any]] | None:
        """Return the parts that the next event adds; None where they are kept outside of the history."""
        attributes = event.activity_task_scheduled_event_attributes
        name, payloads = attributes.activity_type.name, attributes.input.payloads
        if name not in (REQUEST_MODEL.name, KEEP_CONVERSATION.name):
            return []
        request, is_outside = first_object(payloads), any(map(is_kept_outside, payloads))
        if name == REQUEST_MODEL.name:
            number, is_first = cast("int | None", conversation_part(request).get("number")), not self._told
            if number in self._told:
                return []
            self._told.add(number or event.event_id)
            if is_first and is_outside:
                return []  # it begins with the prompt, or with what stands for all that was said before
        if is_outside:
            return None
        messages = request_messages(request)
        # What comes before the first answer is the prompt, or stands for all that was said before.
        goes_on = conversation_part(request).get("answer") or any(one.get("kind") == "response" for one in messages)
        return [part for message in new_messages(messages) for part in told_parts(message)] if goes_on else []


def is_result(part: Mapping[str, Any]) -> bool:
    """Whether a part is the result of a tool call."""
    kind = part.get("part_kind")
    return kind == "tool-return" or (kind == "retry-prompt" and bool(part.get("tool_name")))


def is_failed(part: Mapping[str, Any]) -> bool:
    """Whether the result of a tool call tells the model of a refusal or a failure."""
    return part.get("part_kind") == "retry-prompt" or part.get("outcome") not in (None, "success")


def asked_calls(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls in an answer: `tool`, `args` for reading along, and id as `call`."""
    return [
        {
            "tool": str(part.get("tool_name")),
            "args": shortened(arguments_of(part)),
            "call": str(part.get("tool_call_id") or ""),
        }
        for part in parts
        if part.get("part_kind") == "tool-call"
    ]


def failed_calls(parts: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the calls that were refused or failed: `tool`, id as `call`, and the `reason` that the model is told."""
    return [
        {
            "tool": str(part.get("tool_name") or ""),
            "call": str(part.get("tool_call_id") or ""),
            "reason": scrubbed(part.get("content"), binary=False),
        }
        for part in parts or ()
        if is_result(part) and is_failed(part)
    ]
