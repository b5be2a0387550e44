"""The pages of a review: the changes of a layer, file by file and part by part, and the form that answers them.

Only the form carries what was chosen from step to step, so that it works without scripts and nothing is kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import Question
from llm_do_temporal.client.question_background import Precedents, read_background
from llm_do_temporal.client.reviews.choice import ReviewChoice
from llm_do_temporal.client.reviews.desk import check_answer, compared, read_origin, reviews_of
from llm_do_temporal.client.reviews.review import Review, ReviewChange
from llm_do_temporal.errors import DecisionRefused, EffectFailed, LlmDoError, UsageError
from llm_do_temporal.extensions.review.messages import ShownReview, shown_review
from llm_do_temporal.extensions.review.policy.answer import MAX_COMMENTS
from llm_do_temporal.extensions.review.policy.sections import Section
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.layers.layer import NodeKind
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of
from llm_do_temporal.storage.snapshots import SNIFFED_BYTES, guess_media_type
from llm_do_temporal.ui.content.forms import MAX_ROWS, keeps_text, with_ends_of
from llm_do_temporal.ui.content.questions import answered_last, question_among, question_of, text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.reviews import (
    ReviewPart,
    all_of,
    body_of,
    change_at,
    check_whole,
    comments_as_text,
    first_choice,
    none_of,
    number_of,
    part_of,
    row_of,
    sent_choice,
)
from llm_do_temporal.ui.pages.attachments import blobs_at, send_file
from llm_do_temporal.ui.pages.inbox import decided, inbox_address, kept_query, queue_of
from llm_do_temporal.ui.requests import client_of, is_barred, number_in, sentence, settings_of


@dataclass(frozen=True)
class OpenedReview:
    """Review with the store that its files are read from."""

    review: Review
    blobs: BlobStore


async def review_of(request: Request) -> OpenedReview:
    """Return the review that the address names. Raises UsageError, EffectFailed where it cannot be read here."""
    question = await question_of(request)
    if question.request.extension is None:
        raise UsageError(f"'{question.id}' asks about a call, and not about changes")
    return await opened_review(request, question)


async def opened_review(request: Request, question: Question) -> OpenedReview:
    """Return the review that a question asks for. Raises EffectFailed where it cannot be read here."""
    workshop, blobs = settings_of(request).workshop, blobs_of(client_of(request).temporal.data_converter)
    if blobs is None:
        if workshop is None:
            raise EffectFailed("the blob store with the changes is not where this page runs")
        blobs = await blobs_at(request, workshop)
    (review,) = await asyncio.to_thread(reviews_of, [question], blobs)
    return OpenedReview(review, blobs)


TEXT = "text"
"""Field with the text of the file."""


async def show_edit(
    request: Request, opened: OpenedReview, choice: ReviewChoice, number: str, *, part: int, note: str
) -> Response:
    """Show the text of a file, to be changed. Raises UsageError, DecisionRefused for one that cannot be edited here."""
    change = change_at(opened.review, number)
    text = await asyncio.to_thread(_text, opened, choice, change)
    return render(
        request,
        "review_edit.html",
        question=opened.review.question,
        digest=text_of(request.state.form, "digest"),
        changes=opened.review.shown.section.digest,
        draft=choice.draft().model_dump_json(),
        change=change,
        number=number,
        text=text,
        rows=min(text.count("\n") + 3, 2 * MAX_ROWS),
        is_edited=change.path in choice.edits,
        part_number=part,
        keeps=choice.rest == "keep",
        note=note,
        inbox=inbox_address(request),
        query=kept_query(request),
    )


async def kept_edit(opened: OpenedReview, choice: ReviewChoice, number: str, form: FormData) -> ReviewChoice:
    """Return the choice with the text that the form has for a file, which is kept. Raises like `show_edit`."""
    change = change_at(opened.review, number)
    before = await asyncio.to_thread(_text, opened, choice, change)
    text = with_ends_of(text_of(form, TEXT), before)
    if text == before:
        return choice
    edited = choice.with_edit(change, await asyncio.to_thread(opened.review.contents.keep, text))
    # The folder of a new file has a box of its own.
    return replace(edited, whole=edited.whole & choice.whole.union(change.change.paths))


async def dropped_edit(opened: OpenedReview, choice: ReviewChoice, number: str, _form: FormData) -> ReviewChoice:
    """Return the choice with a file accepted as the worker wrote it. Raises UsageError."""
    return choice.with_ticked(change_at(opened.review, number), ticked=True)


def _text(opened: OpenedReview, choice: ReviewChoice, change: ReviewChange) -> str:
    edited, now = choice.edits.get(change.path), change.change.now
    if now is None:
        raise DecisionRefused(f"'{change.path}' is gone in this change, so there is nothing to edit")
    contents = opened.review.contents
    text = contents.text(now, change.path) if edited is None else opened.blobs.read(edited).decode()
    if not keeps_text(text):
        raise DecisionRefused(
            f"'{change.path}' has hidden characters or mixed line ends, which a browser would change",
            next_step=f"Edit it in a terminal: `llm-do-temporal review {opened.review.question.run} --edit PATH`.",
        )
    return text


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
    shown, background, queue, last = await asyncio.gather(
        _contents(request, question, step),
        read_background(client_of(request), question),
        queue_of(request, question),
        answered_last(request, {question.run: known}),
    )
    barred = is_barred(request, question)
    return render(
        request,
        "review_page.html",
        status=step.status,
        question=question,
        asked=question.request,
        shown=shown_review(question.request),
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
    at = ReviewStep(note=text_of(form, "note").strip(), part=number_in(text_of(form, "part-number")) or 1)
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
            part = number_in(which) or 1 if step == "part" else at.part
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
        return await decided(request, question, decision.model_copy(update=named))
    except DecisionRefused as refused:
        now, known = await question_among(request)
        kept = at.choice if now.is_open else None
        at = replace(at, opened=None, choice=kept, problem=_told(refused), status=409)
        return await show_review(request, now, known, at)


async def _contents(request: Request, question: Question, step: ReviewStep) -> dict[str, Any]:
    """Return the part of the review that is shown, or the reason why none can be."""
    try:
        opened = step.opened or await opened_review(request, question)
        review = await asyncio.to_thread(compared, opened.review, settings_of(request).workshop)
        opened = replace(opened, review=review)
        choice, part = await asyncio.to_thread(_part, opened, step)
    except LlmDoError as error:
        return {"part": None, "unreadable": _told(error), "conflicts": {}, "moved": {}, "draft": "", "keeps": False}
    shown = {"part": part, "unreadable": "", "conflicts": review.conflicts, "moved": review.moved}
    return shown | {"draft": choice.draft().model_dump_json(), "keeps": choice.rest == "keep"}


def _part(opened: OpenedReview, step: ReviewStep) -> tuple[ReviewChoice, ReviewPart]:
    choice = step.choice or first_choice(opened.review)
    return choice, part_of(opened.review, choice, step.part, opened.blobs, step.unfolded)


def _others(question: Question, known: Sequence[Question]) -> list[tuple[Question, ShownReview]]:
    """Return the questions about the other sections of the same review, each with what it shows."""
    mine = shown_review(question.request)
    pairs = [(one, shown_review(one.request)) for one in known if one.id != question.id]
    return [(one, its) for one, its in pairs if its is not None and mine is not None and its.manifest == mine.manifest]


def _told(error: LlmDoError) -> str:
    return f"{sentence(error)} {error.next_step}" if error.next_step else sentence(error)


async def show_file(request: Request) -> Response:
    """Show what changes in one file, for a page that has only its line so far."""
    opened = await review_of(request)
    review, number = opened.review, number_of(opened.review, request.path_params["number"])
    choice = first_choice(review)
    row = row_of(review, choice, number)
    body = await asyncio.to_thread(body_of, review, choice, row, opened.blobs)
    may_decide = review.question.is_open and not is_barred(request, review.question)
    return render(request, "review_file.html", row=replace(row, body=body), may_decide=may_decide)


async def send_side(request: Request) -> Response:
    """Send the bytes of one side of a change: as it was, or as it is in the layer."""
    opened = await review_of(request)
    change = change_at(opened.review, request.path_params["number"]).change
    if request.path_params["side"] not in ("old", "new"):
        raise HTTPException(404)
    is_new = request.path_params["side"] == "new"
    node, path = (change.now, change.path) if is_new else (change.base, change.old_path or change.path)
    if node is None or node.kind is not NodeKind.FILE:
        raise HTTPException(404)
    try:
        data = await asyncio.to_thread(opened.review.contents.bytes, node, path)
    except LlmDoError as error:
        raise HTTPException(404) from error
    # By its bytes, whatever a model has called it.
    media_type = guess_media_type("", data[:SNIFFED_BYTES])
    sent = Attachment(path=path, sha256=node.sha256, bytes=len(data), media_type=media_type)
    return await send_file(request, sent, lambda: data)


async def show_reason(request: Request) -> Response:
    """Show the words of the model in the turn in which it made a change."""
    opened = await review_of(request)
    number = number_of(opened.review, request.path_params["number"])
    origin = await read_origin(client_of(request), opened.review, opened.review.changes[number])
    address = row_of(opened.review, first_choice(opened.review), number).author_address
    return render(request, "review_reason.html", origin=origin, address=address)


_ADDRESS = "/runs/{run}/approvals/{approval}/files/{number}"


routes = [
    Route(_ADDRESS, show_file, methods=["GET"]),
    Route(f"{_ADDRESS}/why", show_reason, methods=["GET"]),
    Route(_ADDRESS + "/{side}", send_side, methods=["GET"]),
]
