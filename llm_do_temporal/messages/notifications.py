"""What targets outside are told of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.base import Message
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget


class Notification(Message):
    """One thing that happened, as it is told. What does not belong to its event is None."""

    v: int = 1
    id: str
    """The same for every attempt, and for every target."""
    event: NotifyEvent
    at: datetime
    """When it happened."""
    run: str
    worker: str
    """Who asks; for an event of the run, its entry worker."""
    link: str | None = None
    """The page of the approval or of the run."""
    approval: str | None = None
    """Id of the approval, like `a3`."""
    digest: str | None = None
    """Of what is asked, for a decision to name."""
    path: str | None = None
    tool: str | None = None
    summary: str | None = None
    approvers: tuple[str, ...] | None = None
    """Who may decide; empty for everybody."""
    asked_at: datetime | None = None
    deadline: datetime | None = None
    decision: DecisionKind | None = None
    by: str | None = None
    note: str | None = None
    door: str | None = None
    """How the decision came: `signal`, `update`, `grant` for a remembered one, or `timer` when time had run out."""
    error: str | None = None
    """Name of the error's class, for a run that failed."""
    content: dict[str, Any] | None = None
    """What only a target with `content: true` is told."""


class NotifyInput(Message):
    """Input of `notify`."""

    target: NotifyTarget
    notification: Notification
