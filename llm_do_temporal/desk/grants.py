"""Answers of the desk that need no person: grants and scripts, and how each of their uses is counted.

Pure steps. A grant remembers a decision for identical calls, or agrees to calls of a kind, so often and for so long. A
script stands in for people: in the cases of an evaluation, and in a fork for those who decided in the run that it is
of. Three things it does not do: it answers the questions at a limit, and whether to repeat what may have happened, only
where it names them; and it agrees to nothing for which named people, or several, must agree.
"""

from __future__ import annotations

from datetime import datetime

from llm_do_temporal.desk.votes import Asked, check_change
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
    ScriptedAnswer,
    Verdict,
)
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import ALWAYS_ASKS

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


SCRIPT = "script"
"""Name under which the desk gives answers that name nobody, and rejects what no answer fits."""


def shown_digest(request: RequestApprovalInput) -> str:
    """Return the digest of everything that a question shows: of equal questions the same, whoever asks them."""
    uses = [use.model_dump(mode="json") for use in request.capabilities]
    files = [one.model_dump(mode="json") for one in request.files]
    attached = [one.model_dump(mode="json") for one in request.attachments]
    what = [request.tool, request.args, uses, request.summary, request.diff, files, attached, request.circumstances]
    shown = [] if request.extension is None else [request.extension.model_dump(mode="json")]
    return digest_of([request.identity_version, what, *shown])


def answer_of_script(state: DeskState, approval: Approval, *, now: datetime) -> tuple[DeskState, Verdict | None]:
    """Return the state with one more use of the script's first answer that fits, and the verdict that it gives.

    None where no answer fits: then the state is as it was.
    """
    for place, answer in enumerate(state.script):
        if not _fits(answer, approval):
            continue
        used = answer if answer.left is None else answer.model_copy(update={"left": answer.left - 1})
        script = (*state.script[:place], used, *state.script[place + 1 :])
        return state.model_copy(update={"script": script}), _verdict(answer, approval.request, now)
    return state, None


def rejected_by_script(request: RequestApprovalInput, *, now: datetime) -> Verdict:
    """Return the verdict on a question of a run that asks nobody, and for which its script has no answer."""
    if request.names_people:
        lacks = "named people must agree to it, which no script can"
    else:
        lacks = f"the script of this run has no answer for it: write a `decide` for '{asked_name(request)}'"
    return Verdict(
        decision=DecisionKind.REJECT,
        args=request.args,
        note=f"nobody is asked in this run, and {lacks}",
        by=SCRIPT,
        at=now,
        door="script",
    )


def asked_name(request: RequestApprovalInput) -> str:
    """Return the name by which an answer of a script names this question."""
    return next((use.name for use in request.capabilities if use.name in ALWAYS_ASKS), request.tool)


def _fits(answer: ScriptedAnswer, approval: Approval) -> bool:
    request = approval.request
    if answer.left is not None and answer.left <= 0:
        return False
    if asked_name(request) in ALWAYS_ASKS and answer.tool != asked_name(request):
        return False
    if answer.tool and answer.tool != asked_name(request):
        return False
    if answer.content_key and answer.content_key != request.content_key:
        return False
    if answer.shown and answer.shown != shown_digest(request):
        return False
    if answer.decision != DecisionKind.REJECT and request.names_people:
        return False
    try:
        check_change(approval, Decision(decision=DecisionKind(answer.decision), args=answer.args))
    except DecisionRefused:
        # Arguments that the call cannot take: as if nobody had answered.
        return False
    return True


def _verdict(answer: ScriptedAnswer, request: RequestApprovalInput, now: datetime) -> Verdict:
    return Verdict(
        decision=DecisionKind(answer.decision),
        args=request.args if answer.args is None else answer.args,
        note=answer.note,
        by=answer.by or SCRIPT,
        at=now,
        door="script",
        granted_by=answer.source or None,
    )
