"""The question that an address names, the fields of a sent form, and the kinds of calls that it may grant.

Used by the pages about approvals.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.requests import Request

from llm_do_temporal.client import LlmDoClient, OfferedKind, Question, offered_kinds
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Verdict
from llm_do_temporal.policy.kinds.entries import DEFAULT_TIMES, KindGrant

SPANS = {"10m": "10 minutes", "1h": "1 hour", "8h": "8 hours", "3d": "3 days"}
"""Times to choose from, with their words."""


async def question_of(request: Request) -> Question:
    """Return the question that the address names, as it stands now. Raises UsageError if there is none."""
    return (await question_among(request))[0]


async def question_among(request: Request) -> tuple[Question, list[Question]]:
    """Return the question that the address names, and all of its run. Raises UsageError if there is none."""
    run, approval = request.path_params["run"], request.path_params["approval"]
    client: LlmDoClient = request.app.state.client
    questions = await client.questions(run)
    for question in questions:
        if question.id == approval:
            return question, questions
    raise UsageError(f"run '{run}' has asked nothing that is called '{approval}'")


async def decide(request: Request, question: Question, decision: Decision) -> bool:
    """Send a decision, held as long as the page holds decisions.

    Return True if a worker service took it, False if it waits for one to start.
    Sending it twice is no mistake: the same decision of the same person counts as taken.
    Raises DecisionRefused.
    """
    client: LlmDoClient = request.app.state.client
    hold = request.app.state.settings.undo_seconds
    try:
        return await client.decide(question.run, decision.model_copy(update={"hold": hold})) is not None
    except DecisionRefused:
        now = await question_of(request)
        held = [] if now.held is None else [now.held.vote]
        taken = [*now.votes, *held, *([now.verdict] if now.verdict is not None else [])]
        if any(_is_same(verdict, decision) for verdict in taken):
            return True
        raise


def text_of(form: FormData, name: str) -> str:
    """Return the text of a field; empty if the form has no such field."""
    value = form.get(name)
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


def kinds_for(question: Question, questions: Sequence[Question]) -> list[OfferedKind]:
    """Return the kinds to choose from; none for a question that is settled, or whose call others have changed.

    `questions` are those of its run.
    """
    if not question.is_open or question.args != question.request.args:
        return []
    return offered_kinds(question, questions)


def grant_of(form: FormData, question: Question) -> KindGrant | None:
    """Return the grant that a sent form asks for; None: it asks for none. Raises UsageError."""
    chosen = text_of(form, "kind")
    if not chosen:
        return None
    named = [offer for offer in kinds_for(question, ()) if offer.kind.sentence == chosen]
    if not named:
        raise UsageError("none of the kinds that fit this call was chosen; look at the question again")
    times, span = text_of(form, "times") or str(DEFAULT_TIMES), text_of(form, "span")
    try:
        return KindGrant.model_validate({"kind": named[0].kind, "times": times, "seconds": span})
    except ValidationError as error:
        raise UsageError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def _is_same(verdict: Verdict, decision: Decision) -> bool:
    same_args = decision.decision is not DecisionKind.MODIFY or verdict.args == decision.args
    sent = (decision.decision, decision.by, decision.note, decision.grant)
    return (verdict.decision, verdict.by, verdict.note, verdict.grant) == sent and same_args
