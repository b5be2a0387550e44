"""Open questions as they are shown outside a run: in its memo, and in the Temporal UI."""

from __future__ import annotations

from temporalio import workflow

from llm_do_temporal.messages.approvals import Approval
from llm_do_temporal.messages.base import DECIDE_SIGNAL
from llm_do_temporal.messages.runs import PendingApprovalMemo, StartRunInput
from llm_do_temporal.messages.sizes import SUMMARY_CHARS

SHOWN_IN_MEMO = 20
"""Largest number of pending approvals listed in the memo; the search attribute counts all of them."""


def pending_memo(waiting: tuple[Approval, ...], start: StartRunInput | None) -> list[PendingApprovalMemo]:
    """Return the entries of the memo of a run that was started so, SHOWN_IN_MEMO at most; None: it has no start yet."""
    return [_memo(approval, start) for approval in waiting[:SHOWN_IN_MEMO]]


def _memo(approval: Approval, start: StartRunInput | None) -> PendingApprovalMemo:
    request = approval.request
    return PendingApprovalMemo(
        id=approval.id,
        invocation=request.invocation,
        key=request.key,
        worker=request.worker,
        path=request.path,
        tool=request.tool,
        summary=request.summary[:SUMMARY_CHARS],
        asked_at=approval.asked_at,
        deadline=request.deadline,
        votes=len(approval.votes),
        quorum=request.quorum,
        approvers=request.approvers,
        reminded_at=approval.reminded_at,
        generated=request.generated,
        model=request.model,
        digest=request.digest,
        item=request.item[:SUMMARY_CHARS],
        task=start.task(request.path) if start is not None and request.item else "",
        group=request.group,
    )


def pending_details(waiting: tuple[Approval, ...]) -> str:
    """Return Markdown for the Temporal UI: the pending questions, and the command that answers the first."""
    if not waiting:
        return ""
    run, first = workflow.info().workflow_id, waiting[0]
    by = ',"by":"YOUR NAME"' if first.request.names_people else ""
    lines = ["**Waiting for approval**", ""]
    lines += [
        f"- `{approval.id}` {approval.request.path}: {_plain(approval.request.summary)}"
        for approval in waiting[:SHOWN_IN_MEMO]
    ]
    lines += [
        "",
        f"`temporal workflow signal -w {run} --name {DECIDE_SIGNAL} "
        f'--input \'{{"id":"{first.id}","decision":"approve"{by}}}\'`',
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Escape model output so that Markdown shows it as plain text."""
    return "".join(f"\\{char}" if char in "`*_[]<>#|\\" else char for char in text)
