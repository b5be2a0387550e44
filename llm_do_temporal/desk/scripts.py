"""Scripts at the desk: answers that are known before their questions are asked, and how each of these is counted.

Pure steps. A script stands in for people: in the cases of an evaluation, and in a fork for those who decided in the run
that it is of. Three things it does not do: it answers the questions at a limit, and whether to repeat what may have
happened, only where it names them; and it agrees to nothing for which named people, or several, must agree.
"""

from __future__ import annotations

from datetime import datetime

from llm_do_temporal.desk.votes import check_change
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DecisionKind,
    DeskState,
    RequestApprovalInput,
    ScriptedAnswer,
    Verdict,
)
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import ALWAYS_ASKS

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
