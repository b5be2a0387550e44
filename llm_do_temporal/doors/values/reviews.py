"""Reviews as doors show them, and answers to them in parts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from llm_do_temporal.doors.values.base import RequestBody, ResponseValue
from llm_do_temporal.doors.values.runs import MAX_NOTE_CHARS
from llm_do_temporal.messages.reviews import CheckResult
from llm_do_temporal.policy.layers.answer import MAX_COMMENTS, LineComment

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
