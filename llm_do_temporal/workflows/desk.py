"""The desk's book-keeping, as pure steps from one state to the next.

Who asked, who decided, what is remembered. Ids are given out in the order of the questions. The first
decision on a question wins; a decision that cannot be taken raises DecisionRefused and changes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from llm_do_temporal.activities.answers import MAX_CALL_BYTES
from llm_do_temporal.errors import DecisionRefused, Refusal
from llm_do_temporal.messages import (
    Approval,
    Decision,
    DecisionKind,
    DeskState,
    Grant,
    IgnoredDecision,
    Remember,
    RequestApprovalInput,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.policy.approvals import CapabilityUse, canonical
from llm_do_temporal.policy.sandbox import Tree, join, locate
from llm_do_temporal.schemas import schema_problems
from llm_do_temporal.workflows.file_tools import PATH_TOOLS, judge_path

KEPT_IGNORED = 100
"""Nonsense signals kept for the record; a flood of them must not fill the history of a continued run."""


def pending(state: DeskState) -> tuple[Approval, ...]:
    """The questions that still need an answer, oldest first."""
    return tuple(one for one in state.approvals if one.verdict is None and not one.withdrawn)


def with_request(state: DeskState, request: RequestApprovalInput, *, now: datetime) -> tuple[DeskState, Approval]:
    """The state with one more question; it is answered at once where a grant covers it."""
    approval = Approval(id=f"a{state.earlier + len(state.approvals) + 1}", asked_at=now, request=request)
    grant = _grant_for(state, request)
    if grant is not None:
        verdict = grant.verdict.model_copy(update={"at": now, "door": "grant", "remember": Remember.NONE})
        approval = approval.model_copy(update={"verdict": verdict})
    return state.model_copy(update={"approvals": (*state.approvals, approval)}), approval


def with_withdrawal(state: DeskState, withdrawal: WithdrawApprovalsInput) -> DeskState:
    """The state without the questions an invocation no longer asks."""

    def settled(one: Approval) -> Approval:
        gone = withdrawal.covers(one.request.invocation, one.request.key)
        return one.model_copy(update={"withdrawn": True}) if gone and one.verdict is None else one

    return state.model_copy(update={"approvals": tuple(settled(one) for one in state.approvals)})


def with_ignored(state: DeskState, reason: str, *, now: datetime) -> DeskState:
    """The state with a note of a decision that could not be taken."""
    kept = (*state.ignored, IgnoredDecision(at=now, reason=reason[:500]))[-KEPT_IGNORED:]
    return state.model_copy(update={"ignored": kept})


def put_away(state: DeskState) -> DeskState:
    """The state with its questions, none of them open any more, counted and put away."""
    return state.model_copy(update={"approvals": (), "earlier": state.earlier + len(state.approvals)})


def find_question(state: DeskState, decision: Decision) -> Approval:
    """The question a decision is about, if it can be taken. Raises DecisionRefused."""
    approval = _named(state, decision.id)
    if approval.verdict is not None:
        verdict = approval.verdict
        by = verdict.by or "somebody"
        raise DecisionRefused(
            f"approval '{approval.id}' was already decided: {verdict.decision} by {by} "
            f"at {verdict.at.isoformat(timespec='seconds')}"
        )
    if approval.withdrawn:
        raise DecisionRefused(f"approval '{approval.id}' is no longer needed: its worker has stopped")
    _check_change(approval, decision)
    return approval


def with_decision(
    state: DeskState, decision: Decision, *, door: Literal["signal", "update"], now: datetime
) -> tuple[DeskState, list[Approval]]:
    """The state with the decision taken, and the questions it answers (identical open ones too when remembered).

    Raises DecisionRefused.
    """
    asked = find_question(state, decision)
    verdict = Verdict(
        decision=decision.decision,
        args=decision.args if decision.args is not None else asked.request.args,
        note=decision.note,
        by=decision.by,
        at=now,
        door=door,
        remember=decision.remember,
    )
    answered = {asked.id: asked.model_copy(update={"verdict": verdict})}
    grants = state.grants
    if decision.remember is Remember.SESSION:
        grants = (*grants, _grant(asked, verdict))
        for other in pending(state):
            if other.id != asked.id and _same_call(other.request, asked.request):
                echoed = verdict.model_copy(update={"door": "grant"})
                answered[other.id] = other.model_copy(update={"verdict": echoed})
    approvals = tuple(answered.get(one.id, one) for one in state.approvals)
    return state.model_copy(update={"approvals": approvals, "grants": grants}), list(answered.values())


def _named(state: DeskState, approval_id: str | None) -> Approval:
    waiting = pending(state)
    if approval_id is None:
        if len(waiting) == 1:
            return waiting[0]
        ids = ", ".join(one.id for one in waiting) or "none"
        raise DecisionRefused(f"say which approval: {len(waiting)} are pending ({ids})")
    for one in state.approvals:
        if one.id == approval_id:
            return one
    ids = ", ".join(one.id for one in waiting) or "none"
    raise DecisionRefused(f"there is no approval '{approval_id[:40]}'; pending: {ids}")


def _check_change(approval: Approval, decision: Decision) -> None:
    if decision.decision is not DecisionKind.MODIFY:
        if decision.args is not None:
            raise DecisionRefused("`args` belong to a `modify`; to change the call send decision 'modify'")
        return
    if decision.args is None:
        raise DecisionRefused("a `modify` needs the new arguments in `args`")
    schema = approval.request.args_schema
    if schema is None:
        raise DecisionRefused(f"approval '{approval.id}' cannot be changed, only approved or rejected")
    size = len(canonical(decision.args).encode())
    if size > MAX_CALL_BYTES:
        raise DecisionRefused(f"the new arguments have {size} bytes; at most {MAX_CALL_BYTES} are accepted")
    problems = schema_problems(schema, decision.args)
    if problems:
        raise DecisionRefused(f"the new arguments are not valid: {'; '.join(problems[:5])}")
    if approval.request.tool in PATH_TOOLS:
        try:
            judge_path(approval.request.tool, approval.request.tree, decision.args)
        except Refusal as refusal:
            raise DecisionRefused(f"policy refuses the new arguments: {refusal}") from refusal


def _grant(approval: Approval, verdict: Verdict) -> Grant:
    request = approval.request
    return Grant(tool=request.tool, canonical_args=canonical(_subject(request)), approval=approval.id, verdict=verdict)


def _grant_for(state: DeskState, request: RequestApprovalInput) -> Grant | None:
    subject = canonical(_subject(request))
    return next(
        (grant for grant in state.grants if grant.tool == request.tool and grant.canonical_args == subject), None
    )


def _same_call(one: RequestApprovalInput, other: RequestApprovalInput) -> bool:
    return one.tool == other.tool and canonical(_subject(one)) == canonical(_subject(other))


def _subject(request: RequestApprovalInput) -> list[object]:
    """What makes two questions identical: the arguments, and what would be done with them, to or by which file."""
    return [request.args, [_subject_of(use, request.tree) for use in request.capabilities]]


def _subject_of(use: CapabilityUse, tree: Tree) -> list[object]:
    """Workers with `tools.py` files of their own may call different functions by the same name."""
    code = use.payload.get("sha256")
    return [use.name, _real_file(tree, use), *([] if code is None else [code])]


def _real_file(tree: Tree, use: CapabilityUse) -> str | None:
    """Workers with folders of their own may call different files by the same name."""
    path = use.payload.get("path", use.payload.get("cwd"))
    if not isinstance(path, str):
        return None
    try:
        place = locate(tree, path)
    except Refusal:
        return None
    return join(place.mount.root, place.relative)
