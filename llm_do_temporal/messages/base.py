"""Bases of everything on the wire, and the names it goes by."""

from __future__ import annotations

from collections.abc import Sized
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

RUN_WORKFLOW = "LlmDoRun"
WORKER_WORKFLOW = "LlmDoWorker"
AGENT_NAME = "llmdo"
TASK_QUEUE = "llm-do"
TASK_TIMEOUT = timedelta(seconds=5)
"""Longest time that a worker service which was killed within a workflow task goes unnoticed; Temporal's own is 10 s.
The server gives more from the fourth attempt at a task on, so a replay that takes longer ends, too."""
FILES_ELSEWHERE = "FilesElsewhere"
"""Type of the failure of an activity that came to a worker service without the workshop's files."""
TIME_IS_UP = "TimeIsUp"
"""Type of the failure of an attempt at a tool that took longer than the tool may."""
NOT_BEGUN = "NotBegun"
"""Type of the failure of an attempt that came too late to begin, or perhaps so: the server could not be asked."""
MISSING_EXTENSION = "MissingExtension"
"""Type of the failure of an attempt by a service that lacks an extension which the run needs."""
EXTENSION_HEADER = "llm-do-extension-"
"""Beginning of the names of activity headers that only one extension reads; the rest is its name."""
WAITS_FOR_BATCH = "WaitsForBatch"
"""Type of the failure of an attempt at a model turn that has only found its provider's batch under way."""

ENTRY_PATH = "main"
"""Place of the entry invocation in the tree of its run."""

DECIDE_SIGNAL = "decide"
DECIDE_UPDATE = "decide_now"
REQUEST_APPROVAL_SIGNAL = "request_approval"
WITHDRAW_APPROVALS_SIGNAL = "withdraw_approvals"
DELIVER_DECISION_SIGNAL = "deliver_decision"
DELIVER_VOTES_SIGNAL = "deliver_votes"
REVOKE_GRANT_SIGNAL = "revoke_grant"
DESK_QUERY = "desk"

STATE_ATTRIBUTE = "LlmDoState"
PENDING_ATTRIBUTE = "LlmDoPendingApprovals"
WORKER_ATTRIBUTE = "LlmDoWorker"
SCHEDULE_ATTRIBUTE = "TemporalScheduledById"
"""Search attribute of the server's own: the name of the schedule that has started a workflow."""
PENDING_MEMO = "llm_do_pending"
RUN_MEMO = "llm_do_run"
INVOCATION_MEMO = "llm_do_invocation"

Json = Any
"""Any JSON value."""


def is_none(value: object) -> bool:
    """Return whether a field that most messages lack is left out, as it was before the field existed."""
    return value is None


def is_empty(value: Sized) -> bool:
    """Return whether a field that holds several values, and is mostly empty, is left out."""
    return not value


def is_false(value: bool) -> bool:
    """Return whether a field that is mostly false is left out."""
    return not value


def is_zero(value: int) -> bool:
    """Return whether a count that is mostly zero is left out."""
    return value == 0


class Message(BaseModel):
    """Base of everything on the wire: frozen, and tolerant of fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Strict(BaseModel):
    """Base of what people write by hand: an unknown field is a mistake and is named."""

    model_config = ConfigDict(frozen=True, extra="forbid")
