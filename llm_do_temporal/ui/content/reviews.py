"""Reviews as the page shows them: rows of changed files, and choices as the forms of the page carry them.

Nothing is kept between two requests: a form has all that was chosen before as an answer, and boxes for the files that
it shows; boxes win.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal
from urllib.parse import urlencode

from pydantic import ValidationError
from starlette.datastructures import FormData

from llm_do_temporal.client.reviews.choice import ReviewChoice, listed
from llm_do_temporal.client.reviews.review import Preview, Review, ReviewChange, ShownDiff
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.extensions.review.policy.answer import LineComment, ReviewAnswer
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.layers.layer import LayerNode, NodeKind
from llm_do_temporal.policy.layers.patch import FileHunks, Hunk, ended_line, file_hunks, line_span
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.ui.content.sources import DiffBlock, blocks_of, language_of
from llm_do_temporal.ui.content.urls import invocation_address, review_file_address

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


def comments_as_text(choice: ReviewChoice) -> str:
    """Return the comments line by line, for a rejection, which has no answer that could hold them."""
    return "\n".join(f"{one.path}{f':{one.line}' if one.line else ''}: {one.text}" for one in choice.comments)


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
class TreeLine:
    """Line of the tree: a folder, or a changed file in it."""

    name: str
    row: ReviewRow | None = None
    """None for a folder."""


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
    def tree(self) -> list[TreeLine]:
        """Lines of the tree, each folder with its whole path: one may be too deep for any other way to draw it."""
        lines: list[TreeLine] = []
        above = ""
        for row in self.rows:
            folder, _, name = row.change.path.rpartition("/")
            if folder != above:
                lines.append(TreeLine(f"{folder}/" if folder else "./"))
            above = folder
            lines.append(TreeLine(name, row))
        return lines


def part_of(
    review: Review, choice: ReviewChoice, number: int, blobs: BlobStore, opened: Collection[int] = ()
) -> ReviewPart:
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
        body = body_of(review, choice, row, blobs)
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
        address=review_file_address(question.run, question.id, number),
        author_address=invocation_address(question.run, author.invocation) + turn,
    )


def body_of(review: Review, choice: ReviewChoice, row: ReviewRow, blobs: BlobStore) -> RowBody:
    """Return what changes in a file; reads it. Blocks. Raises BlobsUnreachable and KeyMismatch."""
    change, path = row.change, row.change.path
    diff = review.diff(change)
    hunks, is_divisible = diff.hunks, diff.is_divisible
    edited = choice.edits.get(path)
    if edited is not None:
        found = _edited(review, change, blobs.read(edited))
        hunks, is_divisible = (() if found is None else found.hunks), False
    is_too_long = sum(len(hunk.lines) for hunk in hunks) > MOST_LINES
    if is_too_long:
        hunks, is_divisible = (), False
    taken = choice.parts.get(path)
    language = language_of(path)
    now, base = change.change.now, change.change.base
    return RowBody(
        diff=diff,
        hunks=[_shown_hunk(hunk, language, is_taken=taken is None or hunk.id in taken) for hunk in hunks],
        is_divisible=is_divisible,
        is_editable=diff.preview is Preview.TEXT and not diff.problem and now is not None,
        is_too_long=is_too_long,
        old_address=f"{row.address}/old" if _has_bytes(base) else "",
        new_address=f"{row.address}/new" if _has_bytes(now) else "",
    )


def _edited(review: Review, change: ReviewChange, text: bytes) -> FileHunks | None:
    base = change.change.base
    before = b"" if base is None or base.kind is not NodeKind.FILE else review.contents.bytes(base, change.path)
    return file_hunks(before, text)


def _shown_hunk(hunk: Hunk, language: str | None, *, is_taken: bool) -> ShownHunk:
    old, new = line_span(hunk.old_start, hunk.old_lines), line_span(hunk.new_start, hunk.new_lines)
    heading = f"@@ -{old} +{new} @@"
    text = f"{heading}\n{''.join(map(ended_line, hunk.lines))}".removesuffix("\n")
    return ShownHunk(hunk.id, heading, blocks_of(text, language)[1:], is_taken)


def _has_bytes(node: LayerNode | None) -> bool:
    return node is not None and node.kind is NodeKind.FILE and node.blob is not None
