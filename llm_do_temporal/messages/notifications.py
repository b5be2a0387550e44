"""Notifications: messages to targets outside about events of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.base import Message, is_none
from llm_do_temporal.messages.batches import ItemCounts
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget


class Notification(Message):
    """Event of a run, as targets are told of it. Fields that do not belong to the event are None."""

    v: int = 1
    id: str
    """Id of the event: the same for every attempt and every target."""
    event: NotifyEvent
    at: datetime
    """Time of the event."""
    run: str
    worker: str
    """Worker that asks; for an event of the run, its entry worker."""
    link: str | None = None
    """The page of the approval or of the run."""
    approval: str | None = None
    """Id of the approval, like `a3`."""
    digest: str | None = None
    """Digest of the question, for a decision to name."""
    path: str | None = None
    tool: str | None = None
    summary: str | None = None
    approvers: tuple[str, ...] | None = None
    """Names of the people who may decide; empty if everybody may."""
    asked_at: datetime | None = None
    deadline: datetime | None = None
    decision: DecisionKind | None = None
    by: str | None = None
    note: str | None = None
    door: str | None = None
    """Way of the decision: `signal`, `update`, `grant` for a grant, or `timer` once time had run out."""
    error: str | None = None
    """Name of the error's class, for a run that failed."""
    items: ItemCounts | None = Field(default=None, exclude_if=is_none)
    """Counts of a batch that has completed."""
    content: dict[str, Any] | None = None
    """Content that only a target with `content: true` is told."""


class NotifyInput(Message):
    """Input of `notify`."""

    target: NotifyTarget
    notification: Notification
