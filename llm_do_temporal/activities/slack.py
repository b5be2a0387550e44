"""Notifications as messages for Slack's incoming webhooks, and for services that understand the same.

Words of models and people are plain text there: they ping nobody, have no format, and hold no link. The button to the
page is the only link.
"""

from __future__ import annotations

import json
from typing import Any

from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.notifications import Notification
from llm_do_temporal.policy.notifications import NotifyEvent
from llm_do_temporal.redaction.slack_text import AS_IT_IS, plain, slack_text

_TAKEN = {
    DecisionKind.APPROVE: "approved",
    DecisionKind.REJECT: "rejected",
    DecisionKind.MODIFY: "changed and approved",
}


def slack_message(told: Notification) -> dict[str, Any]:
    """Return the notification as a message for Slack."""
    headline = _headline(told)
    texts = [headline, told.summary, told.note, _content(told)]
    blocks: list[dict[str, Any]] = [{"type": "section", "text": plain(text)} for text in texts if text]
    blocks.append({"type": "context", "elements": [plain(_circumstances(told))]})
    if told.link is not None:
        button = {"type": "button", "text": plain("Open"), "url": told.link}
        blocks.append({"type": "actions", "elements": [button]})
    text = ": ".join(filter(None, (headline, told.summary)))
    return {"text": slack_text(text), "blocks": blocks, **AS_IT_IS}


def _headline(told: Notification) -> str:
    match told.event:
        case NotifyEvent.APPROVAL_REQUESTED:
            return f"{told.worker} asks for approval: {told.tool}"
        case NotifyEvent.APPROVAL_REMINDER:
            return f"{told.worker} still waits for approval: {told.tool}"
        case NotifyEvent.APPROVAL_DECIDED:
            taken = _TAKEN[told.decision] if told.decision is not None else "decided"
            return f"{taken} by {told.by or 'somebody'}: {told.tool}"
        case NotifyEvent.RUN_COMPLETED:
            how = "is done" if told.items is None else f"has {told.items.with_state('completed')}"
            return f"{told.worker} {how}"
        case NotifyEvent.RUN_FAILED:
            return f"{told.worker} has failed: {told.error}"


def _content(told: Notification) -> str | None:
    return None if told.content is None else json.dumps(told.content, ensure_ascii=False, indent=1)


def _circumstances(told: Notification) -> str:
    where = " ".join(filter(None, ("run", told.run, told.approval)))
    until = f"until {told.deadline.isoformat(timespec='minutes')}" if told.deadline else None
    whom = f"for {', '.join(told.approvers)}" if told.approvers else None
    return " · ".join(filter(None, (where, told.path, whom, until)))
