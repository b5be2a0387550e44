"""Reviews over the HTTP API, and what `RemoteClient` does with them: their values, routes and methods.

What an answer means is decided by `client`, as for the terminal and the pages.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from llm_do_temporal.doors.http.requests import (
    PREFIX,
    Caller,
    QuestionId,
    RunId,
    Service,
    Shown,
    TokenFirst,
    problem_responses,
    saved,
)
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import MAX_NOTE_CHARS, AskedQuestion, RequestBody, ResponseValue
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.extensions.review.client import (
    Review,
    ReviewChange,
    ReviewChoice,
    ShownDiff,
    check_parts,
    decide_review,
    read_origin,
    read_patch,
)
from llm_do_temporal.extensions.review.client import reviews as read_reviews
from llm_do_temporal.extensions.review.messages import CheckResult
from llm_do_temporal.extensions.review.policy.review import MAX_COMMENTS, LineComment, ReviewAnswer
from llm_do_temporal.policy.layers.layer import NodeKind
from llm_do_temporal.redaction.configured_keys import without_keys
from llm_do_temporal.redaction.hidden_characters import made_visible, shown_name
from llm_do_temporal.remote import RemoteClient, run_path

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


router = APIRouter(prefix=PREFIX, tags=["questions"], route_class=TokenFirst)
ChangedPath = Annotated[str, Query(description="Path of the change.", min_length=1, max_length=4_096)]


@router.get("/runs/{run}/reviews")
async def list_reviews_of_run(service: Service, caller: Caller, run: RunId) -> list[ReviewHead]:
    """List the reviews of a run, open or decided; each is the question of its id."""
    await service.readable(caller, run)
    return [ReviewHead.model_validate(_told(one)) for one in await read_reviews(service.client, run)]


@router.get("/runs/{run}/reviews/{question}")
async def get_review(
    service: Service, caller: Caller, run: RunId, question: QuestionId, response: Response
) -> ShownChanges:
    """Return a review with its changes. Its `ETag` is what an answer names in `If-Match`."""
    shown = ShownChanges.model_validate(_told(await _review(service, caller, run, question)))
    response.headers["ETag"] = f'"{shown.digest}"'
    return shown


@router.get("/runs/{run}/reviews/{question}/change")
async def get_change(
    service: Service,
    caller: Caller,
    run: RunId,
    question: QuestionId,
    path: ChangedPath,
    why: Annotated[bool, Query(description="Whether to read the words of the model.")] = False,
) -> ChangedLines:
    """Return a change of a review with its lines, hunk by hunk; a binary file is known by its digest."""
    review = await _review(service, caller, run, question)
    found = _change(review, path)
    (told,) = (await asyncio.to_thread(review.as_json, only={found.path}))["changes"]
    if why:
        told["words"] = without_keys((await read_origin(service.client, review, found)).words)
    told["hunks"] = [{**hunk, "lines": without_keys(hunk["lines"])} for hunk in told["hunks"]]
    return ChangedLines.model_validate(told)


@router.get("/runs/{run}/reviews/{question}/content", response_class=Response)
async def read_changed_file(
    service: Service,
    caller: Caller,
    run: RunId,
    question: QuestionId,
    path: ChangedPath,
    side: Annotated[Literal["now", "base"], Query(description="As it would be, or as it was.")] = "now",
) -> Response:
    """Send the bytes of one side of a changed file. They are never shown by a browser, only saved."""
    review = await _review(service, caller, run, question)
    found = _change(review, path).change
    node = found.now if side == "now" else found.base
    if node is None or node.kind is not NodeKind.FILE:
        raise UnknownHere(f"there is no file '{path[:200]}' at this side of the change")
    return saved(await asyncio.to_thread(review.contents.bytes, node, path), "application/octet-stream")


@router.post("/runs/{run}/reviews/{question}/answer", responses=problem_responses(409, 412, 428))
async def answer_review(
    service: Service, caller: Caller, run: RunId, question: QuestionId, parts: ReviewParts, digest: Shown
) -> AskedQuestion:
    """Answer a review as it was shown: some files or hunks, not others, with remarks. The first answer wins."""
    asked = await service.decidable(caller, run, question)
    service.check_shown(AskedQuestion.of(asked), digest)
    review = await _found(service, run, question)
    given = await asyncio.to_thread(_answer, review, parts)
    await decide_review(service.client, review, given, note=parts.note, by=caller.name, via=caller.via)
    return await service.question(caller, run, question)


@router.get("/runs/{run}/patch", response_class=Response)
async def read_patch_of_run(service: Service, caller: Caller, run: RunId) -> Response:
    """Send what a run proposes, keeps aside or has committed last, as a patch that `git apply` takes."""
    await service.readable(caller, run)
    return saved(await read_patch(service.client, run, service.folder()), "text/x-diff")


async def read_outline(service: DoorService, who: Principal, run: str, question: str, most: int) -> str:
    """Return lines of text: the outcome of the check, and the first `most` changes. Raises UnknownHere."""
    review = await _review(service, who, run, question)
    return without_keys(await asyncio.to_thread(_outline, review, most))


async def reviews(client: RemoteClient, run: str) -> list[ReviewHead]:
    """Return the reviews of the run, open or decided, in order."""
    return await client.requests.get(list[ReviewHead], run_path(run, "reviews"))


async def review(client: RemoteClient, run: str, question: str) -> ShownChanges:
    """Return a review with its changes, without their lines."""
    return await client.requests.get(ShownChanges, run_path(run, "reviews", question))


async def change(client: RemoteClient, review: ReviewHead, path: str, *, why: bool = False) -> ChangedLines:
    """Return a change of a review with its lines; `why` has the words of the model with it."""
    place = run_path(review.run, "reviews", review.id, "change")
    return await client.requests.get(ChangedLines, place, path=path, why=why)


async def changed_file(
    client: RemoteClient, review: ReviewHead, path: str, *, side: Literal["now", "base"] = "now"
) -> bytes:
    """Return the bytes of a changed file as it would be `now`, or as it was at its `base`."""
    place, params = run_path(review.run, "reviews", review.id, "content"), {"path": path, "side": side}
    return (await client.requests.ask("GET", place, params=params)).content


async def answer(client: RemoteClient, review: ReviewHead, parts: ReviewParts) -> AskedQuestion:
    """Answer a review as it was read, in parts. Raises DecisionRefused, which says who was first."""
    place = run_path(review.run, "reviews", review.id, "answer")
    return await client.requests.post(AskedQuestion, place, parts, shown=review.digest)


async def patch(client: RemoteClient, run: str) -> str:
    """Return what the run proposes, keeps aside or has committed last, as a patch that `git apply` takes."""
    return (await client.requests.ask("GET", run_path(run, "patch"))).text


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
    found = next((one for one in await read_reviews(service.client, run) if one.question.id == question), None)
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
