"""The desk's book-keeping, as pure steps from one state to the next.

Owns the questions and the decisions on them; grants have a module of their own. Ids are given out in the order of the
questions. The first decision on a question wins; a decision that cannot be taken raises DecisionRefused and changes
nothing. A decision that is held has won, and nothing acts on it yet: until it takes effect, its author can replace it
or take it back. Where several must agree, votes count at once and the last one is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from llm_do_temporal.desk.grants import (
    answer_of_desk,
    answer_of_kind,
    answer_of_script,
    check_grant,
    echoed,
    rejected_by_script,
    with_grant,
    with_use,
)
from llm_do_temporal.desk.votes import Asked, check_change, check_who, with_vote
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.json_schema import Steps
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DecisionKind,
    DeskState,
    IgnoredDecision,
    RequestApprovalInput,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.budget import Waits
from llm_do_temporal.policy.approvals import person
from llm_do_temporal.policy.budget import Dimension, described

KEPT_KEYS = 50
"""Most keys of earlier decisions that a question keeps: a copy that comes later still is taken as another decision."""


def waits_of(state: DeskState) -> Waits:
    """Return the sum over all questions so far; those that a grant or a rule answers do not wait."""
    total = state.waited
    for approval in state.approvals:
        if approval.verdict is None or approval.verdict.door in ("grant", "rule"):
            continue
        seconds = max(0, round((approval.verdict.at - approval.asked_at).total_seconds()))
        total = total.plus(Waits(questions=1, seconds=seconds, longest=seconds))
    return total


NOBODY_IN_TIME = "timeout"
"""Name under which the desk rejects questions that were not decided in time."""
KEPT_IGNORED = 100
"""Largest number of malformed signals kept for the record: a flood of them must not fill a continued run's history."""


def pending(state: DeskState) -> tuple[Approval, ...]:
    """Return the questions that still need an answer of a person, oldest first."""
    return tuple(
        approval
        for approval in state.approvals
        if approval.verdict is None and approval.held is None and not approval.withdrawn
    )


def question(state: DeskState, approval_id: str) -> Approval | None:
    """Return the question with this id, settled or not; None where there is none."""
    return next((approval for approval in state.approvals if approval.id == approval_id), None)


def with_question(state: DeskState, request: RequestApprovalInput, *, now: datetime) -> tuple[DeskState, Approval]:
    """Return the state with one more question, open whatever is granted, and the question with its id."""
    approval = Approval(id=f"a{state.earlier + len(state.approvals) + 1}", asked_at=now, request=request)
    before = question(state, request.again) if request.again else None
    if before is not None and before.request.invocation == request.invocation and before.verdict is not None:
        state = _replaced(state, [before.model_copy(update={"again": approval.id})])
    return state.model_copy(update={"approvals": (*state.approvals, approval)}), approval


def with_request(
    state: DeskState, request: RequestApprovalInput, *, now: datetime, scripted: bool = False
) -> tuple[DeskState, Approval]:
    """Return the state with one more question, and the question; it is answered at once where no person is needed.

    A script's answer comes before anything that was granted. With `scripted` nobody is asked: what neither answers is
    rejected.
    """
    state, approval = with_question(state, request, now=now)
    state, verdict = answer_of_script(state, approval, now=now)
    verdict = verdict or answer_of_desk(state, request, now=now)
    if verdict is None and scripted:
        verdict = rejected_by_script(request, now=now)
    if verdict is None:
        return state, approval
    approval = approval.model_copy(update={"verdict": verdict})
    return with_use(_replaced(state, (approval,)), verdict), approval


def with_withdrawal(state: DeskState, withdrawal: WithdrawApprovalsInput) -> DeskState:
    """Return the state with the questions that an invocation takes back marked as withdrawn."""

    def settled(approval: Approval) -> Approval:
        gone = withdrawal.covers(approval.request.invocation, approval.request.key)
        return approval.model_copy(update={"withdrawn": True}) if gone and approval.verdict is None else approval

    return state.model_copy(update={"approvals": tuple(settled(approval) for approval in state.approvals)})


def with_ignored(state: DeskState, reason: str, *, now: datetime) -> DeskState:
    """Return the state with a note of a decision that could not be taken; `reason` is cut to 500 characters."""
    kept = (*state.ignored, IgnoredDecision(at=now, reason=reason[:500]))[-KEPT_IGNORED:]
    return state.model_copy(update={"ignored": kept})


def archived(state: DeskState) -> DeskState:
    """Return the state without its questions, none of them open any more, which are counted only."""
    earlier = state.earlier + len(state.approvals)
    return state.model_copy(update={"approvals": (), "earlier": earlier, "waited": waits_of(state)})


def already_decided_message(approval_id: str, verdict: Verdict) -> str:
    """Return the message for whoever comes second: it says who has decided the question, how and when."""
    at = verdict.at.isoformat(timespec="seconds")
    return f"approval '{approval_id}' was already decided: {verdict.decision} by {verdict.by or 'somebody'} at {at}"


def only_meant(waiting: Mapping[str, str], digest: str | None) -> str:
    """Return the id of the one question that a decision without an id means, of those that wait, by their digests.

    It is the only one with the digest of the decision, or the only one. Raises DecisionRefused where there is none.
    """
    named = [name for name, one in waiting.items() if digest and one == digest] or list(waiting)
    if len(named) == 1:
        return named[0]
    raise DecisionRefused(f"say which approval: {len(waiting)} are pending ({', '.join(waiting) or 'none'})")


def check_answer(asked: Asked, decision: Decision, steps: Steps | None = None) -> None:
    """Raise DecisionRefused where the arguments or the grant of a decision do not fit the question.

    Whether the question is decided already is not looked at. The check takes `steps`; None: those of one validation.
    """
    check_change(asked, decision, steps)
    check_grant(asked, decision)


def find_question(state: DeskState, decision: Decision, steps: Steps | None = None, *, now: datetime) -> Approval:
    """Return the question that a decision is about. Raises DecisionRefused where the decision cannot be taken.

    The check of new arguments takes `steps`; None: those of one validation.
    """
    approval = _open_question(state, decision, now)
    check_answer(approval, decision, steps)
    return approval


def _open_question(state: DeskState, decision: Decision, now: datetime) -> Approval:
    approval = _named(state, decision)
    if approval.verdict is not None:
        raise DecisionRefused(already_decided_message(approval.id, approval.verdict))
    if approval.withdrawn:
        raise DecisionRefused(f"approval '{approval.id}' is no longer needed: its worker has stopped")
    held = approval.held
    if held is not None and held.effective_at is not None and person(held.by) != person(decision.by):
        until = held.effective_at.isoformat(timespec="seconds")
        raise DecisionRefused(f"{already_decided_message(approval.id, held)}; it takes effect at {until}")
    if decision.key and decision.key in approval.keys:
        raise DecisionRefused(f"this decision about approval '{approval.id}' was taken already")
    if held is not None and decision.decision is not None:
        _check_replacement(approval, held, now)
    if decision.digest is not None and decision.digest != approval.request.digest:
        raise DecisionRefused(
            f"the decision is about something else than approval '{approval.id}': it names the digest "
            f"{decision.digest[:80]!r}, and what is asked has '{approval.request.digest}'; look at the question again"
        )
    if decision.decision is not None:
        check_who(approval, decision, started_by=state.started_by)
    elif held is None:
        raise DecisionRefused(f"approval '{approval.id}' is not decided; there is nothing to take back")
    return approval


def _check_replacement(approval: Approval, held: Verdict, now: datetime) -> None:
    """Raise DecisionRefused where another decision of the same author cannot replace the held one."""
    already = already_decided_message(approval.id, held)
    if not person(held.by):
        raise DecisionRefused(f"{already}; a decision without a name can only be taken back")
    if approval.request.deadline is not None and approval.request.deadline <= now:
        raise DecisionRefused(f"{already}; the time for another decision is over, it can only be taken back")


def with_decision(
    state: DeskState,
    decision: Decision,
    *,
    door: Literal["signal", "update"],
    now: datetime,
    steps: Steps | None = None,
    checked: bool = False,
) -> tuple[DeskState, list[Approval]]:
    """Return the state with the decision taken, and the questions that it concerns.

    The first of these is the question it is about, which stays open where others must agree; the rest are those that
    the decision answers too, because it is remembered or grants calls of their kind. A decision that is held, or takes
    one back that is, concerns its own question alone. Raises DecisionRefused.

    The check of new arguments takes `steps`; None: those of one validation. `checked`: `find_question` has just checked
    them, and they are not checked a second time.
    """
    asked = _open_question(state, decision, now) if checked else find_question(state, decision, steps, now=now)
    keys = (*asked.keys, decision.key)[-KEPT_KEYS:] if decision.key else asked.keys
    asked = asked.model_copy(update={"held": None, "keys": keys})
    if decision.decision is None:
        return _replaced(state, (asked,)), [asked]
    vote = Verdict(
        decision=decision.decision,
        args=decision.args if decision.args is not None else asked.request.args,
        note=decision.note,
        by=decision.by.strip(),
        at=now,
        door=door,
        remember=decision.remember,
        digest=decision.digest,
        grant=decision.grant,
        via=decision.via,
    )
    taken = with_vote(asked, vote)
    if decision.hold and taken.verdict is not None:
        vote = vote.model_copy(update={"effective_at": now + timedelta(seconds=decision.hold)})
        taken = asked.model_copy(update={"held": vote})
        return _replaced(state, (taken,)), [taken]
    return _with_vote_in_effect(state, taken, now=now)


def with_answer(state: DeskState, approval: Approval) -> DeskState:
    """Return the state with this question, votes and verdict included, in the place of the question with its id.

    Its verdict is remembered where that was meant. Answers no other question: each gets an answer of its own.
    """
    before = question(state, approval.id)
    state = with_grant(_replaced(state, (approval,)), approval)
    is_new = approval.verdict is not None and (before is None or before.verdict is None)
    return with_use(state, approval.verdict) if approval.verdict is not None and is_new else state


def with_all_withdrawn(state: DeskState) -> DeskState:
    """Return the state of a run that has ended: no question needs an answer any more."""
    unanswered = [approval for approval in state.approvals if approval.verdict is None]
    return _replaced(state, [approval.model_copy(update={"withdrawn": True}) for approval in unanswered])


def next_due(state: DeskState) -> datetime | None:
    """Return the moment of the next reminder, deadline or end of a hold; None where there is none."""
    moments = [
        moment for approval in pending(state) for moment in (approval.request.deadline, _reminder(approval)) if moment
    ]
    return min([*moments, *(moment for moment, _ in _held_until(state))], default=None)


def at_time(state: DeskState, *, now: datetime) -> tuple[DeskState, list[Approval]]:
    """Return the state at the moment `now`, and the questions that were answered by the time that has passed.

    Those are the questions whose held decision takes effect, with all that it answers, then those whose deadline has
    passed, each of them rejected. A decision that is held was in time, whatever the deadline.
    """
    answered: list[Approval] = []
    for until, held in sorted(_held_until(state), key=lambda one: one[0]):
        if held.held is not None and until <= now:
            vote = held.held.model_copy(update={"effective_at": now})
            taken = with_vote(held.model_copy(update={"held": None}), vote)
            state, further = _with_vote_in_effect(state, taken, now=now)
            answered += further

    def at_this_time(approval: Approval) -> Approval:
        if approval.verdict is not None or approval.withdrawn or approval.held is not None:
            return approval
        if approval.request.deadline is not None and approval.request.deadline <= now:
            answered.append(approval.model_copy(update={"verdict": _too_late(approval, now)}))
            return answered[-1]
        reminder = _reminder(approval)
        return (
            approval.model_copy(update={"reminded_at": now}) if reminder is not None and reminder <= now else approval
        )

    approvals = tuple(at_this_time(approval) for approval in state.approvals)
    return state.model_copy(update={"approvals": approvals}), answered


def _held_until(state: DeskState) -> list[tuple[datetime, Approval]]:
    """Return the questions whose decision has not taken effect, each with the time at which it does."""
    return [
        (one.held.effective_at, one)
        for one in state.approvals
        if one.held is not None and one.held.effective_at is not None and not one.withdrawn
    ]


def _reminder(approval: Approval) -> datetime | None:
    return approval.request.remind_at if approval.reminded_at is None else None


def _too_late(approval: Approval, now: datetime) -> Verdict:
    request = approval.request
    waited = described(Dimension.TIME, Decimal(request.timeout_seconds or 0))
    who = f"only {len(approval.votes)} of {request.quorum} agreed" if approval.votes else "nobody decided"
    return Verdict(
        decision=DecisionKind.REJECT,
        args=request.args,
        note=f"{who} within {waited}",
        by=NOBODY_IN_TIME,
        at=now,
        door="timer",
    )


def _named(state: DeskState, decision: Decision) -> Approval:
    waiting, approval_id = pending(state), decision.id
    if approval_id is None:
        waiting_digests = {approval.id: approval.request.digest for approval in waiting}
        approval_id = only_meant(waiting_digests, decision.digest)
    named_so = question(state, approval_id)
    if named_so is not None:
        return named_so
    ids = ", ".join(approval.id for approval in waiting) or "none"
    raise DecisionRefused(f"there is no approval '{approval_id[:40]}'; pending: {ids}")


def _replaced(state: DeskState, approvals: Sequence[Approval]) -> DeskState:
    by_id = {approval.id: approval for approval in approvals}
    return state.model_copy(
        update={"approvals": tuple(by_id.get(approval.id, approval) for approval in state.approvals)}
    )


def _with_vote_in_effect(state: DeskState, taken: Approval, *, now: datetime) -> tuple[DeskState, list[Approval]]:
    """Return the state with this question, which got a vote or its verdict, and all that it answers."""
    granted = with_grant(_replaced(state, (taken,)), taken)
    if taken.verdict is None or granted.grants == state.grants:
        return granted, [taken]
    return _with_further_answers(granted, taken, now=now)


def _with_further_answers(state: DeskState, taken: Approval, *, now: datetime) -> tuple[DeskState, list[Approval]]:
    """Return the state with the open questions answered that the newest grant covers, and all that was answered."""
    answered = [taken]
    for approval in pending(state):
        grant = state.grants[-1]
        if grant.granted is None:
            if _same_call(approval.request, taken.request):
                answered.append(approval.model_copy(update={"verdict": echoed(grant, now=now)}))
        elif grant.covers(approval.request, now=now):
            verdict = answer_of_kind(grant, approval.request, now=now)
            answered.append(approval.model_copy(update={"verdict": verdict}))
            state = with_use(state, verdict)
    return _replaced(state, answered), answered


def _same_call(one: RequestApprovalInput, other: RequestApprovalInput) -> bool:
    return one.tool == other.tool and one.identity == other.identity
