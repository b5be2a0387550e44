"""The terms of a question on both ends: as an invocation asks it, and as it takes an answer that came too late."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow

from llm_do_temporal.errors import ApprovalTimedOut
from llm_do_temporal.messages.approvals import RequestApprovalInput, Verdict
from llm_do_temporal.policy.approvals import Terms


def request_fields(terms: Terms) -> dict[str, Any]:
    """The fields of RequestApprovalInput that say who must agree, and until when."""
    return {
        "approvers": terms.approvers or (),
        "quorum": terms.quorum,
        "forbid_own": terms.forbid_own,
        "deadline": _in(terms.timeout),
        "on_timeout": terms.on_timeout,
        "remind_at": _in(terms.remind_after),
        "timeout_seconds": terms.timeout,
    }


def raise_if_expired(verdict: Verdict, request: RequestApprovalInput) -> None:
    """Raise ApprovalTimedOut for a verdict of the desk's timer, where the workshop says `on_timeout: fail`."""
    if verdict.door == "timer" and request.on_timeout == "fail":
        raise ApprovalTimedOut(
            f"{verdict.note}: {request.summary[:200]}",
            next_step="Start it again when somebody is there, or raise `timeout` under `approvals` in workshop.yaml.",
        )


def _in(seconds: int | None) -> datetime | None:
    return None if seconds is None else workflow.now() + timedelta(seconds=seconds)
