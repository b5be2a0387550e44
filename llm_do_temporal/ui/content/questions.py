"""The question that an address names, the fields of a sent form and its decision, and what was answered before.

Used by the pages about approvals. An address carries the question that was answered last, and the tally: the number of
answers that a person has given in one go, like `3.1.0`. A fourth number, where it is there, counts the calls that were
agreed to, not carried out and asked about again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.requests import Request

from llm_do_temporal.client import LlmDoClient, OfferedKind, Question, offered_kinds
from llm_do_temporal.client.question_document import document_of
from llm_do_temporal.errors import DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Verdict
from llm_do_temporal.policy.kinds.kind import DEFAULT_TIMES, KindGrant

SPANS = {"10m": "10 minutes", "1h": "1 hour", "8h": "8 hours", "3d": "3 days"}
"""Times to choose from, with their words."""
ANSWERED_LAST = "did"
"""Field of an address with the run and the id, `RUN/a1`, of the question that was answered before this one."""
TALLY = "tally"
"""Field of an address with the numbers of approved, changed and rejected calls."""
_KINDS = (DecisionKind.APPROVE, DecisionKind.MODIFY, DecisionKind.REJECT)
_WORDS = (*(kind.done for kind in _KINDS), "not carried out and asked again")
_MOST_DIGITS = 6


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
        held = [] if now.held is None else [now.held]
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
    return offered_kinds(question, questions) if document_of(question).can("grant") else []


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


async def answered_last(request: Request, known: Mapping[str, Sequence[Question]]) -> Question | None:
    """Return the question that the address says was answered last, as it stands now; None without one.

    `known` has the questions of runs that were read already.
    """
    run, _, approval = request.query_params.get(ANSWERED_LAST, "").rpartition("/")
    if not run:
        return None
    client: LlmDoClient = request.app.state.client
    try:
        questions = known[run] if run in known else await client.questions(run)
    except LlmDoError:
        return None
    return next((one for one in questions if one.id == approval), None)


def with_one_more(tally: str, kind: DecisionKind) -> str:
    """Return the tally after one more decision of this kind; one that cannot be read counts as empty."""
    counts = _counts(tally)
    counts[_KINDS.index(kind)] += 1
    return _written(counts)


def with_one_less(tally: str, kind: DecisionKind) -> str:
    """Return the tally after a decision of this kind was taken back."""
    counts, place = _counts(tally), _KINDS.index(kind)
    counts[place] = max(counts[place] - 1, 0)
    return _written(counts)


def with_asked_again(tally: str, kind: DecisionKind) -> str:
    """Return the tally once the call of a decision of this kind is asked about again, which was not carried out."""
    counts, place = _counts(tally), _KINDS.index(kind)
    if counts[place]:
        counts[place], counts[-1] = counts[place] - 1, counts[-1] + 1
    return _written(counts)


def answered(query: Mapping[str, str]) -> str:
    """Return in words what the tally in an address says; empty without one."""
    counts = _counts(query.get(TALLY, ""))
    told = [f"{count} {word}" for count, word in zip(counts, _WORDS, strict=True) if count]
    total = sum(counts)
    return f"{total} {'question' if total == 1 else 'questions'} answered: {', '.join(told)}" if total else ""


def _counts(tally: str) -> list[int]:
    numbers = tally.split(".")
    is_known = len(numbers) in (len(_KINDS), len(_WORDS))
    if not is_known or not all(one.isascii() and one.isdecimal() and len(one) <= _MOST_DIGITS for one in numbers):
        return [0] * len(_WORDS)
    return [int(one) for one in (*numbers, "0")][: len(_WORDS)]


def _written(counts: list[int]) -> str:
    return ".".join(map(str, counts if counts[-1] else counts[:-1]))
