"""Decisions that are held for some seconds before they take effect, in which whoever decided can take them back.

Pure steps. A held decision has won already, so nobody else can decide; nothing acts on it yet: not the asking
invocation, no grant, no other question. Where several must agree, votes count at once and the last one is held.
"""

from __future__ import annotations

from datetime import datetime

from llm_do_temporal.desk.votes import with_vote
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import (
    Approval,
    DeskState,
    HeldDecision,
    UndoInput,
    UndoneDecision,
    Verdict,
)
from llm_do_temporal.messages.sizes import KEPT_UNDONE
from llm_do_temporal.policy.approvals import person


def held(approval: Approval, vote: Verdict, *, until: datetime) -> Approval:
    """Return the question with the decision that answers it, which takes effect `until` then."""
    return approval.model_copy(update={"held": HeldDecision(vote=vote, until=until)})


def in_effect(approval: Approval, *, now: datetime) -> Approval:
    """Return the question with its held decision as the verdict; the question itself without one."""
    if approval.held is None:
        return approval
    vote = approval.held.vote.model_copy(update={"effective_at": now})
    return with_vote(approval.model_copy(update={"held": None}), vote)


def taken_back(approval: Approval, *, now: datetime) -> Approval:
    """Return the question open again, with a note of the decision; the question itself where none is held."""
    if approval.held is None:
        return approval
    undone = (*approval.undone, UndoneDecision(vote=approval.held.vote, at=now))[-KEPT_UNDONE:]
    return approval.model_copy(update={"held": None, "undone": undone})


def holding(state: DeskState) -> tuple[Approval, ...]:
    """Return the questions whose decision has not taken effect; the first to do so first."""
    found = [(approval.held.until, approval) for approval in state.approvals if approval.held and approval.is_held]
    return tuple(approval for _, approval in sorted(found, key=lambda one: one[0]))


def check_shown(approval: Approval, digest: str | None) -> None:
    """Raise DecisionRefused where the digest of a decision names another question than this one; None names none."""
    if digest is None or digest == approval.request.digest:
        return
    asked, named = approval.request.digest, repr(digest[:80])
    raise DecisionRefused(
        f"the decision is about something else than approval '{approval.id}': it names the digest {named}, and "
        f"what is asked has '{asked}'; look at the question again"
    )


def find_held(state: DeskState, undo: UndoInput) -> Approval:
    """Return the question whose decision somebody wants to take back. Raises DecisionRefused where that is too late,
    or somebody else has decided."""
    approval = next((one for one in state.approvals if one.id == undo.id), None)
    if approval is None:
        ids = ", ".join(one.id for one in holding(state)) or "none"
        raise DecisionRefused(f"there is no approval '{undo.id[:40]}'; decided and not in effect: {ids}")
    check_shown(approval, undo.digest)
    name, by = f"approval '{approval.id}'", undo.by.strip()
    if approval.withdrawn:
        raise DecisionRefused(f"{name} is no longer needed: its worker has stopped")
    if approval.verdict is not None:
        at = approval.verdict.effective_at or approval.verdict.at
        raise DecisionRefused(
            f"the decision on {name} has taken effect at {at.isoformat(timespec='seconds')}; it cannot be taken back"
        )
    if approval.held is None:
        raise DecisionRefused(f"{name} is not decided; there is nothing to take back")
    decided_by = approval.held.vote.by
    if person(by) != person(decided_by):
        raise DecisionRefused(
            f"{name} was decided by {_named(decided_by)}, who alone can take that back; not {_named(by)}"
        )
    return approval


def _named(by: str) -> str:
    return f"'{by[:80]}'" if by else "somebody without a name"
