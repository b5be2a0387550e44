"""Rules for the people who decide, and for how many of them must agree: pure steps of the desk.

An approval agrees to the call as it was asked about, a change to the call with exactly these arguments. Where several
must agree, they must agree to the same arguments, so that nobody's word stands for arguments they have not seen: a
person who changes the arguments begins the votes anew. One rejection is enough.

New arguments may be put in the place of a call's where its schema and the policy of its files allow them.
"""

from __future__ import annotations

from typing import Any, Protocol

from llm_do_temporal.errors import DecisionRefused, Refusal
from llm_do_temporal.json_schema import Steps, schema_problems
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind, Remember, RequestApprovalInput, Verdict
from llm_do_temporal.messages.sizes import MAX_CALL_BYTES
from llm_do_temporal.policy.approvals import person
from llm_do_temporal.policy.files.protection import PATH_TOOLS, judge_path
from llm_do_temporal.policy.values import canonical


class Asked(Protocol):
    """Question, as far as it says which answers fit it."""

    @property
    def id(self) -> str:
        """Id of the question, like `a3`."""
        ...

    @property
    def request(self) -> RequestApprovalInput:
        """Call that people are asked about."""
        ...


def check_change(approval: Asked, decision: Decision, steps: Steps | None = None) -> None:
    """Raise DecisionRefused where a decision has arguments that the call cannot take, or lacks them.

    The check takes `steps`; None: those of one validation.
    """
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
    problems = schema_problems(schema, decision.args, steps)
    if problems:
        raise DecisionRefused(f"the new arguments are not valid: {'; '.join(problems[:5])}")
    if approval.request.tool in PATH_TOOLS:
        try:
            judge_path(approval.request.tool, approval.request.tree, decision.args)
        except Refusal as refusal:
            raise DecisionRefused(f"policy refuses the new arguments: {refusal}") from refusal


_SHOWN_CHARS = 300


def check_who(approval: Approval, decision: Decision, *, started_by: str) -> None:
    """Raise DecisionRefused where this person may not decide so; `started_by` names the person who started the run."""
    request, by = approval.request, decision.by.strip()
    named = f"'{by[:80]}'" if by else "somebody without a name"
    if request.approvers and by not in request.approvers:
        raise DecisionRefused(
            f"approval '{approval.id}' may be decided by {' or '.join(request.approvers)}, not by {named}"
        )
    if decision.decision is DecisionKind.REJECT:
        return
    if request.forbid_own and (not person(by) or person(by) == person(started_by)):
        raise DecisionRefused(
            f"approval '{approval.id}' needs somebody other than who started the run; it cannot be approved by {named}"
        )
    if request.quorum > 1:
        _check_vote(approval, decision, by)


def _check_vote(approval: Approval, decision: Decision, by: str) -> None:
    quorum = f"approval '{approval.id}' needs {approval.request.quorum} people"
    if not person(by):
        raise DecisionRefused(f"{quorum}, so each says who it is in `by`")
    if decision.decision is DecisionKind.APPROVE and not _are_equal(agreed_to(approval), approval.request.args):
        raise DecisionRefused(
            f"{quorum}, and '{approval.votes[-1].by}' has changed the arguments; to agree, send a `modify` with "
            f"args {canonical(agreed_to(approval))[:_SHOWN_CHARS]}"
        )
    wanted = decision.args if decision.args is not None else approval.request.args
    if any(person(vote.by) == person(by) for vote in approval.votes) and _are_equal(wanted, agreed_to(approval)):
        missing = approval.request.quorum - len(approval.votes)
        raise DecisionRefused(f"{quorum}, and '{by[:80]}' has agreed already; {missing} more must")


class HasVotes(Protocol):
    """A question with its votes, at the desk (`Approval`) or as a client reads it."""

    @property
    def request(self) -> RequestApprovalInput:
        """The question as it was asked."""
        ...

    @property
    def votes(self) -> tuple[Verdict, ...]:
        """Votes of those who have agreed so far."""
        ...


def agreed_to(question: HasVotes) -> dict[str, Any]:
    """Return the arguments on the table: those of the question, or of the last vote, which may have changed them."""
    return question.votes[-1].args if question.votes else question.request.args


def with_vote(approval: Approval, vote: Verdict) -> Approval:
    """Return the question with one more vote: decided where the vote rejects or is the last one needed, else open."""
    quorum = approval.request.quorum
    if quorum <= 1 or vote.decision is DecisionKind.REJECT:
        return approval.model_copy(update={"verdict": vote})
    before = approval.votes if _are_equal(vote.args, agreed_to(approval)) else ()
    votes = (*before, vote)
    verdict = None if len(votes) < quorum else _joint(approval, votes)
    return approval.model_copy(update={"votes": votes, "verdict": verdict})


def _joint(approval: Approval, votes: tuple[Verdict, ...]) -> Verdict:
    """Return the joint verdict of these votes; it is remembered, or grants a kind, where every one of them
    says so."""
    last = votes[-1]
    is_change = not _are_equal(last.args, approval.request.args)
    remembered = all(vote.remember is Remember.SESSION for vote in votes)
    return last.model_copy(
        update={
            "decision": DecisionKind.MODIFY if is_change else DecisionKind.APPROVE,
            "by": ", ".join(vote.by for vote in votes),
            "note": "; ".join(f"{vote.by}: {vote.note}" for vote in votes if vote.note),
            "remember": Remember.SESSION if remembered else Remember.NONE,
            "grant": last.grant if all(vote.grant == last.grant for vote in votes) else None,
        }
    )


def _are_equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return canonical(one) == canonical(other)
