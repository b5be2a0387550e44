"""Pages of a review: the changes of a layer, file by file and part by part, and the form that answers them.

Only the form carries what was chosen from step to step, so that it works without scripts and nothing is kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import Question
from llm_do_temporal.client.question_document import Precedents, read_background
from llm_do_temporal.errors import DecisionRefused, EffectFailed, LlmDoError, UsageError
from llm_do_temporal.extensions.review.client import (
    Preview,
    Review,
    ReviewChange,
    ReviewChoice,
    ShownDiff,
    check_answer,
    compared,
    listed,
    read_origin,
    reviews_of,
)
from llm_do_temporal.extensions.review.messages import ShownReview, shown_review
from llm_do_temporal.extensions.review.policy.review import MAX_COMMENTS, LineComment, ReviewAnswer, Section
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.layers.layer import LayerNode, is_file
from llm_do_temporal.policy.layers.patch import Hunk, ended_line, file_hunks, line_span
from llm_do_temporal.storage.external_storage import blobs_of
from llm_do_temporal.storage.snapshots import SNIFFED_BYTES, guess_media_type
from llm_do_temporal.ui.content.documents import DiffBlock, blocks_of, language_of
from llm_do_temporal.ui.content.forms import MAX_ROWS, keeps_text, with_ends_of
from llm_do_temporal.ui.content.questions import answered_last, question_among, question_of, text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import approval_address, invocation_address
from llm_do_temporal.ui.pages.attachments import blobs_at, send_file
from llm_do_temporal.ui.pages.inbox import decided, inbox_address, kept_query, queue_of
from llm_do_temporal.ui.requests import client_of, is_barred, number_in, sentence, settings_of


async def review_of(request: Request) -> Review:
    """Return the review that the address names. Raises UsageError, EffectFailed where it cannot be read here."""
    question = await question_of(request)
    if question.request.extension is None:
        raise UsageError(f"'{question.id}' asks about a call, and not about changes")
    return await opened_review(request, question)


async def opened_review(request: Request, question: Question) -> Review:
    """Return the review that a question asks for. Raises EffectFailed where it cannot be read here."""
    workshop, blobs = settings_of(request).workshop, blobs_of(client_of(request).temporal.data_converter)
    if blobs is None:
        if workshop is None:
            raise EffectFailed("the blob store with the changes is not where this page runs")
        blobs = await blobs_at(request, workshop)
    (review,) = await asyncio.to_thread(reviews_of, [question], blobs)
    return review


TEXT = "text"
"""Field with the text of the file."""


async def show_edit(request: Request, choice: ReviewChoice, number: str, *, part: int, note: str) -> Response:
    """Show the text of a file, to be changed. Raises UsageError, DecisionRefused for one that cannot be edited here."""
    change = change_at(choice.review, number)
    text = await asyncio.to_thread(_text, choice, change)
    return render(
        request,
        "review/review_edit.html",
        question=choice.review.question,
        digest=text_of(request.state.form, "digest"),
        changes=choice.review.shown.section.digest,
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


async def kept_edit(choice: ReviewChoice, number: str, form: FormData) -> ReviewChoice:
    """Return the choice with the text that the form has for a file, which is kept. Raises like `show_edit`."""
    change = change_at(choice.review, number)
    before = await asyncio.to_thread(_text, choice, change)
    text = with_ends_of(text_of(form, TEXT), before)
    if text == before:
        return choice
    edited = choice.with_edit(change, await asyncio.to_thread(choice.review.contents.keep, text))
    # The folder of a new file has a box of its own.
    return replace(edited, whole=edited.whole & choice.whole.union(change.change.paths))


def _text(choice: ReviewChoice, change: ReviewChange) -> str:
    edited, now = choice.edits.get(change.path), change.change.now
    if now is None:
        raise DecisionRefused(f"'{change.path}' is gone in this change, so there is nothing to edit")
    contents = choice.review.contents
    text = contents.text(now, change.path) if edited is None else contents.blobs.read(edited).decode()
    if not keeps_text(text):
        raise DecisionRefused(
            f"'{change.path}' has hidden characters or mixed line ends, which a browser would change",
            next_step=f"Edit it in a terminal: `llm-do-temporal review {choice.review.question.run} --edit PATH`.",
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

    opened: Review | None = None
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


async def show_review(request: Request, question: Question, known: Sequence[Question], step: ReviewStep) -> Response:
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
        "review/review_page.html",
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
        choice = await asyncio.to_thread(sent_choice, opened, form)
        at = replace(at, choice=choice)
        if step in ("all", "none"):
            at = replace(at, choice=all_of(choice) if step == "all" else none_of(choice))
            return await show_review(request, question, known, at)
        if step in ("", "look", "part", "open"):
            part = number_in(which) or 1 if step == "part" else at.part
            only = (number_of(opened, which),) if step == "open" else ()
            return await show_review(request, question, known, replace(at, part=part, unfolded=only))
        if step == "edit":
            return await show_edit(request, choice, which, part=at.part, note=at.note)
        if step in ("keep", "drop"):
            number = number_of(opened, which)
            # Dropped, the file is accepted as the worker wrote it.
            choice = (
                await kept_edit(choice, which, form)
                if step == "keep"
                else choice.with_ticked(opened.changes[number], ticked=True)
            )
            at = replace(at, choice=choice, unfolded=(number,))
            return await show_review(request, question, known, at)
        decision = await asyncio.to_thread(_decision, step, opened, choice, at.note)
    except (DecisionRefused, UsageError, EffectFailed) as wrong:
        status = 409 if isinstance(wrong, DecisionRefused) and at.choice is None else 422
        return await show_review(request, question, known, replace(at, problem=_told(wrong), status=status))
    return await _decide(request, question, at, decision)


def _decision(step: str, review: Review, choice: ReviewChoice, note: str) -> Decision:
    """Return the decision that a button stands for; reads files. Raises DecisionRefused and UsageError."""
    if step == "reject":
        # A rejection has no answer that could hold the comments.
        said = (f"{one.path}{f':{one.line}' if one.line else ''}: {one.text}" for one in choice.comments)
        return _rejection("\n".join(filter(None, (note, *said))))
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
        review = step.opened or await opened_review(request, question)
        review = await asyncio.to_thread(compared, review, settings_of(request).workshop)
        choice, part = await asyncio.to_thread(_part, review, step)
    except LlmDoError as error:
        return {"part": None, "unreadable": _told(error), "conflicts": {}, "moved": {}, "draft": "", "keeps": False}
    shown = {"part": part, "unreadable": "", "conflicts": review.conflicts, "moved": review.moved}
    return shown | {"draft": choice.draft().model_dump_json(), "keeps": choice.rest == "keep"}


def _part(review: Review, step: ReviewStep) -> tuple[ReviewChoice, ReviewPart]:
    choice = step.choice or first_choice(review)
    return choice, part_of(review, choice, step.part, step.unfolded)


def _others(question: Question, known: Sequence[Question]) -> list[tuple[Question, ShownReview]]:
    """Return the questions about the other sections of the same review, each with what it shows."""
    mine = shown_review(question.request)
    pairs = [(one, shown_review(one.request)) for one in known if one.id != question.id]
    return [(one, its) for one, its in pairs if its is not None and mine is not None and its.manifest == mine.manifest]


def _told(error: LlmDoError) -> str:
    return f"{sentence(error)} {error.next_step}" if error.next_step else sentence(error)


async def show_file(request: Request) -> Response:
    """Show what changes in one file, for a page that has only its line so far."""
    review = await review_of(request)
    number = number_of(review, request.path_params["number"])
    choice = first_choice(review)
    row = row_of(review, choice, number)
    body = await asyncio.to_thread(body_of, review, choice, row)
    may_decide = review.question.is_open and not is_barred(request, review.question)
    return render(request, "review/review_file.html", row=replace(row, body=body), may_decide=may_decide)


async def send_side(request: Request) -> Response:
    """Send the bytes of one side of a change: as it was, or as it is in the layer."""
    review = await review_of(request)
    change = change_at(review, request.path_params["number"]).change
    if request.path_params["side"] not in ("old", "new"):
        raise HTTPException(404)
    is_new = request.path_params["side"] == "new"
    node, path = (change.now, change.path) if is_new else (change.base, change.old_path or change.path)
    if not is_file(node):
        raise HTTPException(404)
    try:
        data = await asyncio.to_thread(review.contents.bytes, node, path)
    except LlmDoError as error:
        raise HTTPException(404) from error
    # By its bytes, whatever a model has called it.
    media_type = guess_media_type("", data[:SNIFFED_BYTES])
    sent = Attachment(path=path, sha256=node.sha256, bytes=len(data), media_type=media_type)
    return await send_file(request, sent, lambda: data)


async def show_reason(request: Request) -> Response:
    """Show the words of the model in the turn in which it made a change."""
    review = await review_of(request)
    number = number_of(review, request.path_params["number"])
    origin = await read_origin(client_of(request), review, review.changes[number])
    address = row_of(review, first_choice(review), number).author_address
    return render(request, "review/review_reason.html", origin=origin, address=address)


PAGE_CHANGES = 100
"""Changes on one page of a review."""
MOST_OPEN = 40
"""Largest review whose files are all open at once; of a larger one each is read when somebody opens it."""
FOLDED_LINES = 400
"""Changed lines of a file from which it is folded, and read when it is opened."""
MOST_LINES = 20_000
"""Most lines of one file that a page shows; of a longer one it has both sides to download."""
_READ_TOGETHER = 8
"""Files read from the blob store side by side."""


def first_choice(review: Review) -> ReviewChoice:
    """Return the choice that a page begins with: what was decided, else what approving would agree to. Raises
    UsageError, DecisionRefused."""
    question = review.question
    decided = question.verdict or question.held
    if decided and decided.decision is DecisionKind.REJECT:
        return ReviewChoice(review)
    answer = ReviewAnswer.model_validate(decided.args) if decided else review.answer
    return ReviewChoice.of(review, answer).with_taken_along()


def sent_choice(review: Review, form: FormData) -> ReviewChoice:
    """Return the choice of a sent form. Raises UsageError for what is no such form, DecisionRefused for a stale one."""
    if form.get("changes") != review.shown.section.digest:
        raise DecisionRefused("the form is about other changes than this question", next_step="Look at it again.")
    try:
        answer = ReviewAnswer.model_validate_json(str(form.get("draft", "")))
    except ValidationError:
        raise UsageError("the form does not say what was chosen before; load the page again") from None
    choice = ReviewChoice.of(review, answer)
    taken = set(form.getlist("take"))
    known, ticked = _parts(form, "part-shown"), _parts(form, "part")
    shown = [change_at(review, str(number)) for number in form.getlist("shown")]
    for number, change in zip(form.getlist("shown"), shown, strict=True):
        choice = _boxed(choice, change, number in taken, known.get(str(number), []), ticked.get(str(number), []))
    comments = [one for one in choice.comments if all(one.path != change.path for change in shown)]
    comments += _comments(review, form)
    return replace(choice, comments=tuple(comments), rest="keep" if "keep" in form else "drop")


def change_at(review: Review, number: str) -> ReviewChange:
    """Return the change that a form or an address names by its place in the review. Raises UsageError."""
    return review.changes[number_of(review, number)]


def number_of(review: Review, number: str) -> int:
    """Return the place of a change in the review that a form or an address names. Raises UsageError."""
    if number.isascii() and number.isdigit() and len(number) < 9 and int(number) < len(review.changes):
        return int(number)
    raise UsageError(f"the review has no change '{number[:20]}'; load the page again")


def all_of(choice: ReviewChoice) -> ReviewChoice:
    """Return the choice with everything accepted that is no conflict; edits stay."""
    for path in choice.parts:
        choice = choice.with_ticked(choice.review.change(path), ticked=True)
    return choice.with_all()


def none_of(choice: ReviewChoice) -> ReviewChoice:
    """Return the choice with nothing accepted; comments stay."""
    return replace(choice, whole=frozenset[str](), parts={}, edits={})


def check_whole(choice: ReviewChoice) -> None:
    """Raise DecisionRefused where a choice takes along what nobody has chosen, such as the folder of a new file."""
    if not (choice.whole or choice.parts or choice.edits):
        raise DecisionRefused(
            "nothing is chosen", next_step="Tick what is accepted, ask for changes, or reject all with a reason."
        )
    if along := choice.taken_along:
        raise DecisionRefused(
            f"what is ticked cannot be made without {listed(along)}",
            next_step="Tick these, too, or untick the others.",
        )


def _boxed(
    choice: ReviewChoice, change: ReviewChange, taken: bool, known: list[str], ticked: list[str]
) -> ReviewChoice:
    state = choice.state(change)
    if not taken:
        return choice if state == "not accepted" else choice.with_ticked(change, ticked=False)
    if state == "edited":
        return choice
    if known:
        return choice.with_hunks(change, ticked, known)
    # A file whose parts are not on the page stays as it was chosen.
    return choice if state in ("accepted", "in part") else choice.with_ticked(change, ticked=True)


def _parts(form: FormData, name: str) -> dict[str, list[str]]:
    """Return the ids of hunks that a form names, by the number of their file."""
    found: dict[str, list[str]] = {}
    for value in form.getlist(name):
        number, _, hunk = str(value).partition(" ")
        found.setdefault(number, []).append(hunk)
    return found


def _comments(review: Review, form: FormData) -> list[LineComment]:
    found: list[LineComment] = []
    fields = (form.getlist(name) for name in ("comment-on", "comment-line", "comment-text"))
    for number, line, text in zip(*fields, strict=False):
        words = str(text).replace("\r\n", "\n").strip()
        if not words:
            continue
        path, at = change_at(review, str(number)).path, str(line).strip()
        if at and not (at.isascii() and at.isdigit() and 0 < len(at) < 9 and int(at)):
            raise UsageError(f"the line of a comment on '{path}' is a number from 1, or nothing for the whole file")
        try:
            found.append(LineComment(path=path, line=int(at) if at else None, text=words))
        except ValidationError:
            raise UsageError(f"a comment on '{path}' has {len(words)} characters; at most 4,000 fit") from None
    return found


@dataclass(frozen=True)
class ShownHunk:
    """Part of a change that is accepted by itself."""

    id: str
    heading: str
    blocks: list[DiffBlock]
    is_taken: bool
    """Whether it is accepted where its file is."""


@dataclass(frozen=True)
class RowBody:
    """Content of a row: what changes in the file."""

    diff: ShownDiff
    hunks: list[ShownHunk]
    is_divisible: bool
    is_editable: bool
    is_too_long: bool
    """Whether there are more lines than a page shows."""
    old_address: str = ""
    new_address: str = ""
    """Addresses of the bytes of both sides; empty where there are none."""


@dataclass(frozen=True)
class ReviewRow:
    """Changed file on the page."""

    number: int
    """Place of the change in its review, by which forms and addresses name it."""
    change: ReviewChange
    state: Literal["accepted", "in part", "edited", "not accepted"]
    comments: list[LineComment]
    address: str
    """Address of the body, for what is loaded later."""
    author_address: str
    """Turn of the conversation in which the change was made."""
    body: RowBody | None = None
    """None until somebody opens the file."""

    @property
    def is_taken(self) -> bool:
        """Whether the change is accepted, at least in part."""
        return self.state != "not accepted"


@dataclass(frozen=True)
class ReviewPart:
    """Rows on one page of a review."""

    rows: list[ReviewRow]
    number: int
    """Number of the page, from 1."""
    last: int
    total: int
    """Number of all changes of the review."""
    elsewhere: int
    """Number of chosen changes that are on other pages."""
    elsewhere_in_part: int
    """Number of those that are chosen in part."""
    firsts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Number of each page, with the first path on it; empty where there is one page."""

    @property
    def tree(self) -> list[tuple[str, ReviewRow | None]]:
        """Names in the tree with their files, of folders with None.

        Each folder has its whole path: one may be too deep for any other way to draw it.
        """
        lines: list[tuple[str, ReviewRow | None]] = []
        above = ""
        for row in self.rows:
            folder, _, name = row.change.path.rpartition("/")
            if folder != above:
                lines.append((f"{folder}/" if folder else "./", None))
            above = folder
            lines.append((name, row))
        return lines


def part_of(review: Review, choice: ReviewChoice, number: int, opened: Collection[int] = ()) -> ReviewPart:
    """Return one page of the review; reads the files that are open on it. Blocks.

    Files with chosen parts, edits and comments are open wherever they are, so that forms have all of their boxes.
    """
    changes = review.changes
    last = max(ceil(len(changes) / PAGE_CHANGES), 1)
    number = min(max(number, 1), last)
    first = (number - 1) * PAGE_CHANGES
    rows = [row_of(review, choice, at) for at in range(first, min(first + PAGE_CHANGES, len(changes)))]
    must = {row.number for row in rows if row.number in opened or row.comments or row.state in ("in part", "edited")}
    is_small = len(changes) <= MOST_OPEN

    def read(row: ReviewRow) -> ReviewRow:
        if row.number not in must and not is_small:
            return row
        body = body_of(review, choice, row)
        is_long = body.diff.added + body.diff.removed > FOLDED_LINES
        return row if is_long and row.number not in must else replace(row, body=body)

    with ThreadPoolExecutor(_READ_TOGETHER) as pool:
        rows = list(pool.map(read, rows))
    taken = sum(choice.state(one) != "not accepted" for one in changes)
    starts = [(page, changes[(page - 1) * PAGE_CHANGES].path) for page in range(1, last + 1)] if last > 1 else []
    elsewhere = taken - sum(row.is_taken for row in rows)
    in_part = len(choice.parts) - sum(row.state == "in part" for row in rows)
    return ReviewPart(rows, number, last, len(changes), elsewhere, in_part, starts)


def row_of(review: Review, choice: ReviewChoice, number: int) -> ReviewRow:
    """Return the row of one change, without its body."""
    change, question = review.changes[number], review.question
    author = change.change.author
    turn = f"?{urlencode({'turn': author.turn})}" if author.turn else ""
    return ReviewRow(
        number=number,
        change=change,
        state=choice.state(change),
        comments=[one for one in choice.comments if one.path == change.path],
        address=f"{approval_address(question.run, question.id)}/files/{number}",
        author_address=invocation_address(question.run, author.invocation) + turn,
    )


def body_of(review: Review, choice: ReviewChoice, row: ReviewRow) -> RowBody:
    """Return what changes in a file; reads it. Blocks. Raises BlobsUnreachable and KeyMismatch."""
    change, path = row.change, row.change.path
    diff = review.diff(change)
    hunks, is_divisible = diff.hunks, diff.is_divisible
    edited = choice.edits.get(path)
    now, base = change.change.now, change.change.base
    if edited is not None:
        before = review.contents.bytes(base, path) if is_file(base) else b""
        found = file_hunks(before, review.contents.blobs.read(edited))
        hunks, is_divisible = (() if found is None else found.hunks), False
    is_too_long = sum(len(hunk.lines) for hunk in hunks) > MOST_LINES
    if is_too_long:
        hunks, is_divisible = (), False
    taken = choice.parts.get(path)
    language = language_of(path)
    return RowBody(
        diff=diff,
        hunks=[_shown_hunk(hunk, language, is_taken=taken is None or hunk.id in taken) for hunk in hunks],
        is_divisible=is_divisible,
        is_editable=diff.preview is Preview.TEXT and not diff.problem and now is not None,
        is_too_long=is_too_long,
        old_address=f"{row.address}/old" if _has_bytes(base) else "",
        new_address=f"{row.address}/new" if _has_bytes(now) else "",
    )


def _shown_hunk(hunk: Hunk, language: str | None, *, is_taken: bool) -> ShownHunk:
    old, new = line_span(hunk.old_start, hunk.old_lines), line_span(hunk.new_start, hunk.new_lines)
    heading = f"@@ -{old} +{new} @@"
    text = f"{heading}\n{''.join(map(ended_line, hunk.lines))}".removesuffix("\n")
    return ShownHunk(hunk.id, heading, blocks_of(text, language)[1:], is_taken)


def _has_bytes(node: LayerNode | None) -> bool:
    return is_file(node) and node.blob is not None


_ADDRESS = "/runs/{run}/approvals/{approval}/files/{number}"


routes = [
    Route(_ADDRESS, show_file, methods=["GET"]),
    Route(f"{_ADDRESS}/why", show_reason, methods=["GET"]),
    Route(_ADDRESS + "/{side}", send_side, methods=["GET"]),
]
