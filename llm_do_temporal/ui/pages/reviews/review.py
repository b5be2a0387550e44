"""The page of a review: the changes of a layer, file by file and part by part, and the form that answers them.

Only the form carries what was chosen from step to step, so that it works without scripts and nothing is kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.client.reviews.choice import ReviewChoice
from llm_do_temporal.client.reviews.desk import check_answer, compared
from llm_do_temporal.client.reviews.review import Review
from llm_do_temporal.errors import DecisionRefused, EffectFailed, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.policy.layers.answer import MAX_COMMENTS
from llm_do_temporal.policy.layers.changes import Section
from llm_do_temporal.ui.content.background import read_background
from llm_do_temporal.ui.content.last_answer import answered_last
from llm_do_temporal.ui.content.precedents import Precedents
from llm_do_temporal.ui.content.questions import decide, question_among, text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.reviews.choices import (
    all_of,
    check_whole,
    comments_as_text,
    first_choice,
    none_of,
    number_of,
    sent_choice,
)
from llm_do_temporal.ui.content.reviews.rows import ReviewPart, part_of
from llm_do_temporal.ui.pages.queue import address_after, kept_query, queue_of
from llm_do_temporal.ui.pages.reviews.edit import dropped_edit, kept_edit, show_edit
from llm_do_temporal.ui.pages.reviews.questions import OpenedReview, opened_review

SECTION_WORDS = {
    Section.ORDINARY: "ordinary files",
    Section.WORKERS: "new workers",
    Section.DEFINITIONS: "files that define workers or the workshop",
    Section.AUTOMATION: "version control, and what servers, editors and coding agents run by themselves",
    Section.LINKS_OUT: "links that lead out of the workshop",
}
NO_PRECEDENTS = Precedents("", {}, 0, [])


@dataclass(frozen=True)
class ReviewStep:
    """State of a review on its page, between two requests."""

    opened: OpenedReview | None = None
    """The review, where it was read already."""
    choice: ReviewChoice | None = None
    """None: as was decided, or as approving would have it."""
    part: int = 1
    unfolded: tuple[int, ...] = ()
    """Numbers of the changes that are open whatever their length."""
    note: str = ""
    problem: str = ""
    status: int = 200
    is_sent: bool = False


FIRST_STEP = ReviewStep()


async def show_review(
    request: Request, question: Question, known: Sequence[Question], step: ReviewStep = FIRST_STEP
) -> Response:
    """Show the review that the question asks for, at this step; `known` are all questions of the run."""
    client: LlmDoClient = request.app.state.client
    shown, background, queue, last = await asyncio.gather(
        _contents(request, question, step),
        read_background(client, question),
        queue_of(request, question),
        answered_last(request, {question.run: known}),
    )
    approvers = question.request.approvers
    barred = bool(approvers) and request.state.user not in approvers
    return render(
        request,
        "review_page.html",
        status=step.status,
        question=question,
        asked=question.request,
        shown=question.request.review,
        sections=SECTION_WORDS,
        others=_others(question, known),
        barred=barred,
        may_decide=question.is_open and not barred,
        query=kept_query(request),
        background=background,
        precedents=NO_PRECEDENTS,
        queue=queue,
        last=last,
        note=step.note,
        problem=step.problem,
        sent=step.is_sent,
        **shown,
    )


async def take_review(request: Request, question: Question, known: Sequence[Question]) -> Response:
    """Take a step in a review: to another part of it, to the edit of a file, or to a decision."""
    form = request.state.form
    at = ReviewStep(note=text_of(form, "note").strip(), part=_number(text_of(form, "part-number")))
    step, _, which = text_of(form, "step").partition(":")
    try:
        if step == "reject" and "draft" not in form:
            # Nothing of the changes could be shown; for want of comments the reason is all that there is to say.
            return await _decide(request, question, at, _rejection(at.note))
        opened = await opened_review(request, question)
        at = replace(at, opened=opened)
        choice = await asyncio.to_thread(sent_choice, opened.review, form)
        at = replace(at, choice=choice)
        if step in ("all", "none"):
            at = replace(at, choice=all_of(choice) if step == "all" else none_of(choice))
            return await show_review(request, question, known, at)
        if step in ("", "look", "part", "open"):
            part = _number(which) if step == "part" else at.part
            only = (number_of(opened.review, which),) if step == "open" else ()
            return await show_review(request, question, known, replace(at, part=part, unfolded=only))
        if step == "edit":
            return await show_edit(request, opened, choice, which, part=at.part, note=at.note)
        if step in ("keep", "drop"):
            changed = await (kept_edit if step == "keep" else dropped_edit)(opened, choice, which, form)
            at = replace(at, choice=changed, unfolded=(number_of(opened.review, which),))
            return await show_review(request, question, known, at)
        decision = await asyncio.to_thread(_decision, step, opened.review, choice, at.note)
    except (DecisionRefused, UsageError, EffectFailed) as wrong:
        status = 409 if isinstance(wrong, DecisionRefused) and at.choice is None else 422
        return await show_review(request, question, known, replace(at, problem=_told(wrong), status=status))
    return await _decide(request, question, at, decision)


def _decision(step: str, review: Review, choice: ReviewChoice, note: str) -> Decision:
    """Return the decision that a button stands for; reads files. Raises DecisionRefused and UsageError."""
    if step == "reject":
        return _rejection("\n".join(filter(None, (note, comments_as_text(choice)))))
    if step == "ask":
        choice = replace(none_of(choice), rest="keep")
        if not note and not choice.comments:
            raise UsageError("nothing says what is to be changed; write it below, or comment on a line")
    elif step != "accept":
        raise HTTPException(400, "A decision is `accept`, `ask` or `reject`.")
    if step != "ask":
        check_whole(choice)
    try:
        answer = choice.answer()
    except ValidationError:
        raise UsageError(f"there are {len(choice.comments)} comments; at most {MAX_COMMENTS} fit") from None
    check_answer(review, answer)
    question = review.question
    is_as_asked = question.args == question.request.args and answer == review.answer
    kind = DecisionKind.APPROVE if is_as_asked else DecisionKind.MODIFY
    return Decision(decision=kind, args=None if is_as_asked else answer.model_dump(mode="json"), note=note)


def _rejection(note: str) -> Decision:
    if not note:
        raise UsageError("nothing says why; the model is told the reason")
    return Decision(decision=DecisionKind.REJECT, note=note)


async def _decide(request: Request, question: Question, at: ReviewStep, decision: Decision) -> Response:
    named = {"id": question.id, "digest": text_of(request.state.form, "digest") or None, "by": request.state.user}
    try:
        taken = await decide(request, question, decision.model_copy(update=named))
    except DecisionRefused as refused:
        now, known = await question_among(request)
        kept = at.choice if now.is_open else None
        at = replace(at, opened=None, choice=kept, problem=_told(refused), status=409)
        return await show_review(request, now, known, at)
    return RedirectResponse(await address_after(request, question, decision.decision, taken=taken), status_code=303)


async def _contents(request: Request, question: Question, step: ReviewStep) -> dict[str, Any]:
    """Return the part of the review that is shown, or the reason why none can be."""
    try:
        opened = step.opened or await opened_review(request, question)
        review = await asyncio.to_thread(compared, opened.review, request.app.state.settings.workshop)
        opened = replace(opened, review=review)
        choice, part = await asyncio.to_thread(_part, opened, step)
    except LlmDoError as error:
        return {"part": None, "unreadable": _told(error), "conflicts": {}, "moved": {}, "draft": "", "keeps": False}
    shown = {"part": part, "unreadable": "", "conflicts": review.conflicts, "moved": review.moved}
    return shown | {"draft": choice.draft().model_dump_json(), "keeps": choice.rest == "keep"}


def _part(opened: OpenedReview, step: ReviewStep) -> tuple[ReviewChoice, ReviewPart]:
    choice = step.choice or first_choice(opened.review)
    return choice, part_of(opened.review, choice, step.part, opened.blobs, step.unfolded)


def _others(question: Question, known: Sequence[Question]) -> list[Question]:
    """Return the questions about the other sections of the same review."""
    mine = question.request.review
    pairs = [(one, one.request.review) for one in known if one.id != question.id]
    return [one for one, its in pairs if its is not None and mine is not None and its.manifest == mine.manifest]


def _number(text: str) -> int:
    """Return the number of a page, 1 where there is none."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 else 1


def _told(error: LlmDoError) -> str:
    sentence = f"{error.message[:1].upper()}{error.message[1:]}."
    return f"{sentence} {error.next_step}" if error.next_step else sentence
