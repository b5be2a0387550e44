"""Grants at the desk: decisions that answer further questions, and how each of these is counted.

Pure steps. A grant remembers a decision for identical calls, or agrees to calls of a kind, so often and for so long.
"""

from __future__ import annotations

from datetime import datetime

from llm_do_temporal.desk.votes import Asked
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DecisionKind,
    DeskState,
    Grant,
    Remember,
    RequestApprovalInput,
    RevokeGrantInput,
    Verdict,
)

WORKSHOP = "workshop.yaml"
"""Name under which the desk agrees to calls that an entry of `approvals: allow:` lets through."""


def check_grant(approval: Asked, decision: Decision) -> None:
    """Raise DecisionRefused where a decision grants what it may not grant."""
    grant, call = decision.grant, approval.request.call
    if grant is None:
        return
    if decision.decision is not DecisionKind.APPROVE:
        raise DecisionRefused("a `grant` of further calls goes with decision 'approve' alone")
    if decision.remember is not Remember.NONE:
        raise DecisionRefused("a decision is remembered for identical calls or grants a kind of calls, not both")
    if not call.may_be_covered:
        raise DecisionRefused(f"calls like that of approval '{approval.id}' are asked about one by one")
    if not grant.kind.covers(call):
        raise DecisionRefused(f"'{grant.kind.sentence}' does not cover the call of approval '{approval.id}' itself")


def with_revocation(state: DeskState, revocation: RevokeGrantInput) -> DeskState:
    """Return the state without the grant of this approval: the calls that it covered are asked about again.

    Raises DecisionRefused where there is no such grant.
    """
    left = tuple(grant for grant in state.grants if grant.approval != revocation.id)
    if len(left) == len(state.grants):
        raise DecisionRefused(f"there is no grant of approval '{revocation.id[:40]}' to revoke")
    return state.model_copy(update={"grants": left})


def with_grant(state: DeskState, approval: Approval) -> DeskState:
    """Return the state with the verdict as a grant; the state itself where it grants nothing, or is a grant already."""
    verdict = approval.verdict
    # The answer of a grant or a script makes no grant of its own.
    if verdict is None or verdict.door in ("grant", "rule", "script"):
        return state
    if verdict.remember is not Remember.SESSION and verdict.grant is None:
        return state
    if any(grant.approval == approval.id for grant in state.grants):
        return state
    return state.model_copy(update={"grants": (*state.grants, Grant.of(approval.id, approval.request, verdict))})


def answer_of_desk(state: DeskState, request: RequestApprovalInput, *, now: datetime) -> Verdict | None:
    """Return the verdict on a new question that needs no person; None where a person is asked.

    A decision on an identical call comes first, as it may be a rejection; then the workshop's entries, which are not
    used up; then kinds that people granted.
    """
    covering = [grant for grant in state.grants if grant.covers(request, now=now)]
    identical = next((grant for grant in covering if grant.granted is None), None)
    if identical is not None:
        return echoed(identical, now=now)
    if request.allowed:
        return Verdict(
            decision=DecisionKind.APPROVE, args=request.args, note=request.allowed, by=WORKSHOP, at=now, door="rule"
        )
    return answer_of_kind(covering[0], request, now=now) if covering else None


def echoed(grant: Grant, *, now: datetime) -> Verdict:
    """Return the verdict of a grant on an identical call."""
    changes = {
        "door": "grant",
        "digest": None,
        "at": now,
        "effective_at": None,
        "remember": Remember.NONE,
        "granted_by": grant.approval,
    }
    return grant.verdict.model_copy(update=changes)


def answer_of_kind(grant: Grant, request: RequestApprovalInput, *, now: datetime) -> Verdict:
    """Return the verdict of a grant on another call of its kind."""
    return Verdict(
        decision=DecisionKind.APPROVE,
        args=request.args,
        note=grant.sentence,
        by=grant.verdict.by,
        at=now,
        door="grant",
        granted_by=grant.approval,
    )


def with_use(state: DeskState, verdict: Verdict) -> DeskState:
    """Return the state with one more use of the grant of a kind that gave this verdict; else the state itself."""
    if verdict.door != "grant":
        return state
    grants = tuple(
        grant.model_copy(update={"used": grant.used + 1})
        if grant.granted is not None and grant.approval == verdict.granted_by
        else grant
        for grant in state.grants
    )
    return state if grants == state.grants else state.model_copy(update={"grants": grants})
