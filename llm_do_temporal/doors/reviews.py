"""Reviews for doors: the changes that a run proposes, looked at and answered in parts.

Owns nothing of what an answer means: `client.reviews` makes it, for the terminal and the page, too.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import Field

from llm_do_temporal.client.reviews.choice import ReviewChoice, check_parts
from llm_do_temporal.client.reviews.desk import decide_review, read_origin, read_patch
from llm_do_temporal.client.reviews.review import Review, ReviewChange, ShownDiff
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import MAX_NOTE_CHARS, AskedQuestion, RequestBody, ResponseValue
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.extensions.review.messages import CheckResult
from llm_do_temporal.extensions.review.policy.answer import MAX_COMMENTS, LineComment, ReviewAnswer
from llm_do_temporal.policy.layers.layer import NodeKind
from llm_do_temporal.redaction.configured_keys import without_keys
from llm_do_temporal.redaction.hidden_characters import made_visible, shown_name

MAX_PATHS = 10_000
"""Most paths that an answer names; a folder or `all` stands for more."""
_Path = Annotated[str, Field(min_length=1, max_length=4_096)]
_Paths = Annotated[tuple[_Path, ...], Field(max_length=MAX_PATHS)]


class ReviewHead(ResponseValue):
    """Review without its changes."""

    id: str
    """Id of its question."""
    run: str
    path: str
    """Place of the asking invocation in the tree of the run."""
    number: int
    """Number of the review in its invocation, from 1."""
    section: str
    """Part of the changes that is decided by itself: `ordinary`, or a kind that gives power."""
    is_open: bool
    digest: str
    """Digest of all that is shown: an answer names it."""
    branch: str | None
    """Git branch that takes the changes; null: the workshop's files do."""
    counts: dict[str, int]
    """Number of changes of each kind, and their `total`."""
    check: CheckResult | None
    """Outcome of the workshop's check on the changes; null: it has none."""


class ChangeNode(ResponseValue):
    """File, link or folder at one side of a change."""

    kind: Literal["file", "link", "folder"]
    mode: str
    """Permissions, in octal digits."""
    bytes: int | None = None
    sha256: str | None = None
    """Digest of a file's bytes, by which binary files are told apart."""
    target: str | None = None
    """Target of a link."""


class ChangeAuthor(ResponseValue):
    """Invocation and turn that a change is of."""

    invocation: str
    turn: int
    """Number of the turn; 0 for a person."""


class ChangedFile(ResponseValue):
    """Change of one path, without its lines."""

    path: str
    old_path: str | None
    """Path before, of a renamed file."""
    kind: Literal["added", "modified", "mode", "deleted", "renamed"]
    conflict: str | None
    """Reason why it cannot simply be made, as somebody else has changed the path meanwhile; null: none."""
    key: str
    """Digest of both sides: as long as it is the same, whoever has seen the change has seen this one."""
    author: ChangeAuthor
    now: ChangeNode | None
    base: ChangeNode | None


class ShownChanges(ReviewHead):
    """Review with all of its changes, and with what stands as its answer."""

    answer: dict[str, Any]
    """Answer to which approving agrees now: all but conflicts, or what others have changed it to."""
    changes: tuple[ChangedFile, ...]


class ChangedHunk(ResponseValue):
    """Part of a change of a text, which can be accepted by itself where the file is divisible."""

    id: str
    old_start: int
    """Lines before it in the file as it was."""
    new_start: int
    """Lines before it in the file as it would be."""
    lines: tuple[str, ...]
    """Lines, each behind a blank, `+` or `-`."""


class ChangedLines(ChangedFile):
    """Change of one path with its lines; a binary file has none, and is known by its digest."""

    preview: Literal["text", "image", "pdf", "binary", "link", "folder"]
    media_type: str | None
    problem: str | None
    """Reason why the lines cannot be shown; null: they are all there."""
    is_divisible: bool
    """Whether each hunk can be accepted by itself."""
    hunks: tuple[ChangedHunk, ...]
    words: str | None = None
    """Text of the model in the turn that made the change; null: not asked for."""


class ReviewParts(RequestBody):
    """Answer to a review, change by change. What it does not accept is not accepted.

    `all` comes first, then `accept`, single hunks and edits; `reject` comes last, and no order of names counts.
    """

    all: bool = False
    """Whether every change is accepted that is no conflict."""
    accept: _Paths = ()
    """Paths that are accepted; one that ends in `/` stands for all below it that is no conflict."""
    reject: _Paths = ()
    """Paths, or folders with `/`, that are not: of a folder nothing that is in it, also where its own path is named."""
    hunks: Annotated[dict[_Path, Annotated[tuple[str, ...], Field(max_length=MAX_PATHS)]], Field(max_length=1_000)] = (
        Field(default_factory=dict)
    )
    """Hunks that are accepted, by the paths of files that are accepted in part."""
    edits: Annotated[dict[_Path, Annotated[str, Field(max_length=2 << 20)]], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """New texts of files, which are accepted so."""
    comments: Annotated[tuple[LineComment, ...], Field(max_length=MAX_COMMENTS)] = ()
    """Remarks on changes, which the model is told: the reasons why something is not accepted."""
    rest: Literal["drop", "keep"] = "drop"
    """Treatment of what is not accepted: files go back to their state before, or stay as they are in the layer."""
    note: str = Field(default="", max_length=MAX_NOTE_CHARS)
    """Reason for accepting nothing at all, which the model is told; it goes with nothing else."""


async def list_reviews(service: DoorService, who: Principal, run: str) -> list[ReviewHead]:
    """Return the reviews of a run, open or decided, in order."""
    await service.readable(who, run)
    return [ReviewHead.model_validate(_told(one)) for one in await service.client.reviews(run)]


async def show_review(service: DoorService, who: Principal, run: str, question: str) -> ShownChanges:
    """Return a review with its changes, and no lines of them: these are read one by one. Raises UnknownHere."""
    return ShownChanges.model_validate(_told(await _review(service, who, run, question)))


async def show_change(
    service: DoorService, who: Principal, run: str, question: str, path: str, *, why: bool = False
) -> ChangedLines:
    """Return a change of a review with its lines; `why` has the words of the model with it. Raises UnknownHere."""
    review = await _review(service, who, run, question)
    change = _change(review, path)
    (told,) = (await asyncio.to_thread(review.as_json, only={change.path}))["changes"]
    if why:
        told["words"] = without_keys((await read_origin(service.client, review, change)).words)
    told["hunks"] = [{**hunk, "lines": without_keys(hunk["lines"])} for hunk in told["hunks"]]
    return ChangedLines.model_validate(told)


async def read_outline(service: DoorService, who: Principal, run: str, question: str, most: int) -> str:
    """Return lines of text: the outcome of the check, and the first `most` changes. Raises UnknownHere."""
    review = await _review(service, who, run, question)
    return without_keys(await asyncio.to_thread(_outline, review, most))


async def read_side(
    service: DoorService, who: Principal, run: str, question: str, path: str, side: str
) -> tuple[bytes, str]:
    """Return the bytes of a changed file, `now` or at its `base`, and their media type. Raises UnknownHere."""
    review = await _review(service, who, run, question)
    change = _change(review, path)
    node = change.change.now if side == "now" else change.change.base
    if node is None or node.kind is not NodeKind.FILE:
        raise UnknownHere(f"there is no file '{path[:200]}' at this side of the change")
    return await asyncio.to_thread(review.contents.bytes, node, path), "application/octet-stream"


async def patch_of_run(service: DoorService, who: Principal, run: str) -> str:
    """Return what a run proposes, keeps aside or has committed last, as a patch that `git apply` takes."""
    await service.readable(who, run)
    return await read_patch(service.client, run, service.folder())


async def answer_review(
    service: DoorService, who: Principal, run: str, question: str, parts: ReviewParts, *, digest: str
) -> AskedQuestion:
    """Answer a review as it was shown with this digest, and return its question. The first answer of all doors wins.

    Raises DecisionRefused, AccessRefused, UnknownHere.
    """
    asked = await service.decidable(who, run, question)
    service.check_shown(AskedQuestion.of(asked), digest)
    review = await _found(service, run, question)
    answer = await asyncio.to_thread(_answer, review, parts)
    await decide_review(service.client, review, answer, note=parts.note, by=who.name, via=who.via)
    return await service.question(who, run, question)


def _answer(review: Review, parts: ReviewParts) -> ReviewAnswer | None:
    """Return the answer that the parts stand for; None rejects everything. Blocks; raises DecisionRefused."""
    accepts = parts.all or parts.accept or parts.hunks or parts.edits
    if parts.note and (accepts or parts.reject or parts.comments or parts.rest == "keep"):
        raise UsageError(
            "a `note` is the reason for accepting nothing, and goes with nothing else",
            next_step="Say in `comments` why single changes are not accepted.",
        )
    if not accepts and not parts.comments and not parts.note.strip():
        raise UsageError("it accepts nothing, and says no reason", next_step="Give `all`, `accept`, or a `note`.")
    if parts.note:
        return None
    choice = ReviewChoice(review, rest=parts.rest)
    accept = [review.exact_name(name) for name in parts.accept]
    choice = (choice.with_all() if parts.all else choice).with_names(accept, accepted=True)
    in_part, edited = list[str](), list[str]()
    for path, ids in parts.hunks.items():
        change = review.meant(path)
        review.contents.check_hunks(change.change, ids)
        choice = choice.with_hunks(change, ids, [hunk.id for hunk in review.diff(change).hunks])
        in_part += [change.path] if ids else []
    for path, text in parts.edits.items():
        path = review.meant(path).path
        choice = choice.with_edit(review.change(path), review.contents.keep(text))
        edited.append(path)
    choice = choice.with_names([review.exact_name(name) for name in parts.reject], accepted=False)
    for comment in parts.comments:
        path = review.meant(comment.path).path
        choice = choice.with_comment(comment.model_copy(update={"path": path}))
    check_parts(choice, everything=parts.all, accept=accept, in_part=in_part, edited=edited)
    return choice.answer()


async def _review(service: DoorService, who: Principal, run: str, question: str) -> Review:
    await service.readable(who, run)
    return await _found(service, run, question)


async def _found(service: DoorService, run: str, question: str) -> Review:
    found = next((one for one in await service.client.reviews(run) if one.question.id == question), None)
    if found is None:
        raise UnknownHere(f"run '{run}' has asked for no review that is called '{question[:40]}'")
    return found


def _change(review: Review, path: str) -> ReviewChange:
    found = review.by_path.get(path)
    if found is None:
        raise UnknownHere(f"'{path[:200]}' is not among the changes")
    return found


def _outline(review: Review, most: int) -> str:
    """Blocks: the files of the changes that are named are read."""
    check, left = review.shown.check, len(review.changes) - most
    lines = [] if check is None else [f"check {'passed' if check.passed else 'failed'}: {check.command}"]
    lines += [_change_words(one, review.diff(one)) for one in review.changes[:most]]
    return "\n".join(made_visible(line, keep="") for line in [*lines, *([f"… {left:,} more"] if left > 0 else [])])


def _change_words(change: ReviewChange, diff: ShownDiff) -> str:
    kind, old = change.change.kind.value, change.change.old_path
    paths = f"{f'{shown_name(old)} → ' if old else ''}{shown_name(change.path)}"
    lines = f"+{diff.added:,} -{diff.removed:,} lines" if diff.hunks else ""
    facts = filter(
        None, (lines or diff.preview.value, diff.problem, change.conflict and f"conflict: {change.conflict}")
    )
    return f"{kind} {paths}: {', '.join(facts)}"


def _told(review: Review) -> dict[str, Any]:
    told = review.as_json(lines=False)
    check = None if told["check"] is None else without_keys(told["check"])
    return told | {"path": review.question.request.place, "check": check}
