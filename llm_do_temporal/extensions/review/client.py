"""Reviews as people read and answer them: the changes, file by file and part by part, choices among them, decisions."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistoryEventFilterType

from llm_do_temporal.client.connections import out_of_reach, translated
from llm_do_temporal.client.history.events import first_object, put_back, read_chain
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.transcripts import read_part_with
from llm_do_temporal.errors import DecisionRefused, EffectFailed, LlmDoError, UsageError
from llm_do_temporal.extensions.review.messages import COMMIT_CHANGES, ShownReview, shown_review
from llm_do_temporal.extensions.review.policy.review import (
    ALL,
    LineComment,
    ReviewAnswer,
    ReviewManifest,
    Section,
    joined,
    named,
    needing,
)
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind
from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.layer import (
    CarriedLayer,
    Layer,
    LayerChange,
    LayerChangeKind,
    LayerNode,
    NodeKind,
    above,
    is_file,
    name_of,
    parent_of,
)
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.policy.layers.patch import Hunk, file_hunks, patch_of, text_of
from llm_do_temporal.redaction.hidden_characters import KnownNames, shown_name
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files, folds_names, without_bases
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of
from llm_do_temporal.storage.snapshots import SNIFFED_BYTES, guess_media_type

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.history.questions import Question


MAX_SHOWN_BYTES = 2 * 1024 * 1024
"""Largest file whose differences are shown: a person reads no more of one, and no page or terminal holds it well."""

_NO_TEXT_BEFORE = "what was there before is no text in UTF-8, so all lines are shown as new"


class Preview(StrEnum):
    """Way to show what is at a path, judged by its bytes and never by its name."""

    TEXT = "text"
    IMAGE = "image"
    PDF = "pdf"
    BINARY = "binary"
    LINK = "link"
    FOLDER = "folder"


@dataclass(frozen=True)
class ShownDiff:
    """Change of one path as far as it can be shown."""

    preview: Preview
    """Way to show what is there after the change; of what is gone, what was there."""
    hunks: tuple[Hunk, ...] = ()
    """Changed lines: of a new file all of them, of a deleted one too. None of binaries, links and folders."""
    is_divisible: bool = False
    """Whether each hunk can be accepted by itself."""
    media_type: str = ""
    """Media type of the bytes, as far as they tell it; empty where there are none."""
    problem: str = ""
    """Reason why lines cannot be shown; empty: they are all there."""

    @property
    def added(self) -> int:
        """Number of lines that come."""
        return sum(line[0] == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        """Number of lines that go."""
        return sum(line[0] == "-" for hunk in self.hunks for line in hunk.lines)


class ReviewContents:
    """Contents of both sides of reviewed changes. Methods block: in an event loop they belong into a thread.

    They raise EffectFailed for bytes that are missing or damaged, BlobsUnreachable and KeyMismatch.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._contents = LayerContents(blobs)

    def bytes(self, node: LayerNode, path: str) -> bytes:
        """Return the bytes of a file, whatever its size."""
        return self._contents.read(node, path)

    def text(self, node: LayerNode, path: str) -> str:
        """Return the text of a file. Raises DecisionRefused where it is none, or is too large to be edited."""
        text = text_of(self.bytes(node, path)) if is_file(node) and _is_small(node) else None
        if text is None:
            raise DecisionRefused(f"'{path}' is no text that could be edited; accept it as it is, or not at all")
        return text

    def keep(self, text: str) -> str:
        """Keep the text that a person gave to a file, and return the name of its blob, for `ReviewAnswer.edits`."""
        blob = self._contents.keep(text.encode(), "the edited file").blob
        assert blob is not None  # what was kept
        return blob

    def diff(self, change: LayerChange) -> ShownDiff:
        """Return the change as it can be shown. Bytes that cannot be had are told in its `problem`."""
        node = change.now or change.base
        if not is_file(node):
            return ShownDiff(Preview.LINK if node is not None and node.kind is NodeKind.LINK else Preview.FOLDER)
        if not all(_is_small(one) for one in (change.base, change.now) if one is not None):
            return ShownDiff(Preview.BINARY, problem=f"larger than the {MAX_SHOWN_BYTES} bytes that are shown")
        try:
            return self._file_diff(change, node)
        except EffectFailed as error:
            return ShownDiff(Preview.BINARY, problem=error.message)

    def patch(self, layer: Layer) -> str:
        """Return the layer as a patch that `git apply` takes."""
        return patch_of(layer, self.bytes)

    def check_hunks(self, change: LayerChange, ids: Collection[str]) -> None:
        """Raise DecisionRefused where these are not all hunks of the change."""
        diff = self.diff(change)
        known = {hunk.id for hunk in diff.hunks} if diff.is_divisible else set[str]()
        if stale := sorted(set(ids) - known):
            raise DecisionRefused(
                f"there is no part '{stale[0]}' of the change of '{change.path}'",
                next_step="Look at the review again.",
            )

    def _file_diff(self, change: LayerChange, node: LayerNode) -> ShownDiff:
        shown = self.bytes(node, change.path)
        preview, media_type = _preview(shown)
        if change.kind in (LayerChangeKind.RENAMED, LayerChangeKind.MODE):
            return ShownDiff(preview, media_type=media_type)
        before, after = shown, b""
        if change.now is not None:
            before, after = self.bytes(change.base, change.path) if is_file(change.base) else b"", shown
        hunks = file_hunks(before, after)
        if hunks is None and preview is Preview.TEXT and text_of(before) is None:
            new = file_hunks(b"", after)
            return ShownDiff(preview, new.hunks if new else (), media_type=media_type, problem=_NO_TEXT_BEFORE)
        if hunks is None:
            return ShownDiff(preview, media_type=media_type)
        return ShownDiff(preview, hunks.hunks, is_file(change.base) and is_file(change.now), media_type)


def _is_small(node: LayerNode) -> bool:
    return node.bytes <= MAX_SHOWN_BYTES


def _preview(data: bytes) -> tuple[Preview, str]:
    # Without a name: whatever a model called it, it is what its bytes are.
    media_type = guess_media_type("", data[:SNIFFED_BYTES])
    if media_type.startswith("image/"):
        return Preview.IMAGE, media_type
    if media_type == "application/pdf":
        return Preview.PDF, media_type
    if text_of(data) is not None:
        return Preview.TEXT, "text/plain"
    return Preview.BINARY, "application/octet-stream"


REVIEW_VERSION = 1


@dataclass(frozen=True)
class ReviewChange:
    """Change in a review."""

    change: LayerChange
    conflict: str = ""
    """Reason why it cannot simply be made, as somebody else has changed the path meanwhile; empty: none."""
    moved: str = ""
    """Reason why it could not be made now, as somebody else has changed the path since it was asked; empty: none."""

    @property
    def path(self) -> str:
        """Path of the change; of a renamed file the new one."""
        return self.change.path

    @property
    def key(self) -> str:
        """Digest of the change: another one as soon as either side is another."""
        sides = [None if node is None else node.seen for node in (self.change.now, self.change.base)]
        return digest_of([*self.change.paths, *sides])

    @property
    def author(self) -> str:
        """Invocation and turn that the change is of, in words."""
        author = self.change.author
        return f"{author.invocation}, turn {author.turn}" if author.turn else author.invocation

    def as_json(self) -> dict[str, Any]:
        """Return the change without the lines of it."""
        change, author = self.change, self.change.author
        return {
            "path": change.path,
            "old_path": change.old_path,
            "kind": change.kind.value,
            "conflict": self.conflict or None,
            "changed_since": self.moved or None,
            "key": self.key,
            "author": {"invocation": author.invocation, "turn": author.turn},
            **{name: _node_json(node) for name, node in (("now", change.now), ("base", change.base))},
        }


@dataclass(frozen=True, eq=False)
class ReviewFolder:
    """Folder in the tree of a review. One with nothing in it but another folder stands in the tree as that."""

    path: str
    """Path of the folder; empty for the top."""
    folders: tuple[ReviewFolder, ...] = field(repr=False)
    changes: tuple[ReviewChange, ...] = field(repr=False)
    """Changes in the folder itself, in the order of their names."""
    total: int
    """Number of changes in the folder and all below it."""

    def rows(self) -> Iterator[tuple[int, ReviewFolder | ReviewChange]]:
        """Yield all below the folder with its depth from 0, folders before the changes beside them."""
        # Without recursion: paths of a model are deeper than Python's stack.
        waiting: list[tuple[int, ReviewFolder | ReviewChange]] = [(-1, self)]
        while waiting:
            depth, row = waiting.pop()
            if row is not self:
                yield depth, row
            if isinstance(row, ReviewFolder):
                waiting += ((depth + 1, one) for one in reversed((*row.folders, *row.changes)))


@dataclass(frozen=True, eq=False)
class Review:
    """Review question: the changes of one section, with all that is known of them."""

    question: Question
    shown: ShownReview
    manifest: ReviewManifest
    contents: ReviewContents
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons by path, of the paths that somebody else has changed since this was asked; empty where nobody has looked:
    see `staleness`."""

    @property
    def section(self) -> Section:
        """Section that the question is about."""
        return self.shown.section.section

    @cached_property
    def layer(self) -> Layer:
        """Exactly the changes of the section."""
        return self.manifest.of(self.section)

    @cached_property
    def conflicts(self) -> dict[str, str]:
        """Reasons by path, of all paths of the section that somebody else has changed meanwhile."""
        return self.manifest.conflicts_of(self.section)

    @cached_property
    def changes(self) -> tuple[ReviewChange, ...]:
        """Changes in the order of their paths."""
        found = self.manifest.changes(self.section)
        return tuple(ReviewChange(one, _reason(self.conflicts, one), _reason(self.moved, one)) for one in found)

    @cached_property
    def by_path(self) -> dict[str, ReviewChange]:
        """Changes by path; a renamed file by both of its paths."""
        return {path: one for one in self.changes for path in one.change.paths}

    @cached_property
    def names(self) -> KnownNames:
        """Names of the changes."""
        return KnownNames(self.by_path)

    @cached_property
    def folder_names(self) -> KnownNames:
        """Names of the folders in which something changes, and of changes: one may be a folder."""
        return KnownNames(folder for path in self.by_path for folder in (path, *above(path)))

    @property
    def answer(self) -> ReviewAnswer:
        """Answer that approving agrees to now; of a decided review, the one that was given.

        Of a rejected one it is what was asked about. Raises UsageError for a question that another version has asked.
        """
        verdict = self.question.verdict
        is_given = verdict is not None and verdict.decision is not DecisionKind.REJECT
        try:
            return ReviewAnswer.model_validate(verdict.args if verdict and is_given else self.question.args)
        except ValidationError:
            raise UsageError(f"the arguments of '{self.question.id}' are no answer to a review") from None

    def change(self, path: str) -> ReviewChange:
        """Return the change of this path. Raises DecisionRefused where there is none."""
        found = self.by_path.get(path)
        if found is None:
            raise DecisionRefused(f"'{path}' is not among the changes", next_step="Look at the review again.")
        return found

    def meant(self, name: str) -> ReviewChange:
        """Return the change that a person or a program names: by its path, or as its path is shown.

        Raises DecisionRefused where there is none, or two.
        """
        found = self.names.meant(name)
        if not found and self.folder_names.meant(name):
            raise DecisionRefused(f"'{name}' is a folder", next_step=f"'{name}/' stands for all changes below it.")
        return self.change(_single(name, found) or name)

    def folder_meant(self, name: str) -> str:
        """Return the folder that a name which ends in `/` stands for: by its path, or as its path is shown.

        Raises DecisionRefused where that may be two folders.
        """
        given = "" if name == "./" else name.rstrip("/")
        return _single(name, self.folder_names.meant(given)) or given.removeprefix("./")

    def exact_name(self, name: str) -> str:
        """Return the path that a name stands for, of a folder that ends in `/` with that. Raises DecisionRefused."""
        return f"{self.folder_meant(name)}/" if name.endswith("/") else self.meant(name).path

    def named(self, name: str, *, accepted: bool) -> list[ReviewChange]:
        """Return the changes that a name stands for: PATH, or FOLDER/ with all below it, `/` with everything.

        A folder stands for no conflict where it is `accepted`. Raises DecisionRefused where there is no such change.
        """
        if not name.endswith("/"):
            return [self.change(name)]
        inside = self._inside(name.rstrip("/"))
        if not inside:
            raise DecisionRefused(f"'{name}' has no changes", next_step="Look at the review again.")
        chosen = [one for one in inside if not (accepted and one.conflict)]
        if not chosen:
            raise DecisionRefused(
                f"all that changed in '{name}' was changed by somebody else meanwhile",
                next_step="Accept each of these files by its name.",
            )
        return chosen

    def diff(self, change: ReviewChange) -> ShownDiff:
        """Return the change with its lines, which are read now. Blocks; raises BlobsUnreachable, KeyMismatch."""
        return self.contents.diff(change.change)

    def tree(self) -> ReviewFolder:
        """Return the changes as a tree of folders."""
        inside: dict[str, list[ReviewChange]] = {"": []}
        below: defaultdict[str, list[ReviewFolder]] = defaultdict(list)
        for change in self.changes:
            folder = parent_of(change.path)
            inside.setdefault(folder, []).append(change)
            while (folder := parent_of(folder)) not in inside:
                inside[folder] = []
        # A path sorts after every folder above it, so from the last one on each is complete when its turn comes.
        for path in sorted(inside.keys() - {""}, reverse=True):
            below[parent_of(path)].append(_folder(path, inside[path], below[path]))
        return _folder("", inside[""], below[""])

    def as_json(self, *, lines: bool = True, only: Container[str] | None = None) -> dict[str, Any]:
        """Return the object of `review --json`; without `lines` no file is read.

        `only` has the paths of the changes that are wanted; None: all.
        """
        question, shown = self.question, self.shown
        return {
            "v": REVIEW_VERSION,
            "type": "review",
            "run": question.run,
            "id": question.id,
            "digest": question.request.digest,
            "is_open": question.is_open,
            "number": shown.number,
            "section": self.section.value,
            "changes_digest": shown.section.digest,
            "branch": shown.branch or None,
            "counts": shown.section.counts.model_dump(mode="json") | {"total": shown.section.counts.total},
            "check": None if shown.check is None else {"passed": shown.check.passed, **shown.check.model_dump()},
            "answer": question.args,
            "verdict": question.verdict.model_dump(mode="json") if question.verdict else None,
            "changes": [
                change.as_json() | (_diff_json(self.diff(change)) if lines else {})
                for change in self.changes
                if only is None or change.path in only
            ],
        }

    def _inside(self, folder: str) -> list[ReviewChange]:
        """Return the changes of a folder and of all below it; a renamed file is in the folders of both of its paths."""
        if not folder:
            return list(self.changes)
        start, end = (bisect_left(self._paths, folder + char) for char in ("/", "0"))
        paths = [*([folder] if folder in self.by_path else []), *self._paths[start:end]]
        return list({change.path: change for change in map(self.by_path.__getitem__, paths)}.values())

    @cached_property
    def _paths(self) -> list[str]:
        return sorted(self.by_path)


def _reason(reasons: Mapping[str, str], change: LayerChange) -> str:
    return next((reasons[path] for path in change.paths if path in reasons), "")


def _single(name: str, found: Sequence[str]) -> str:
    """Return the one path that a name stands for; empty: none. Raises DecisionRefused for two."""
    if len(found) > 1:
        told = " or ".join(f"the path {shown_name(path)}" for path in sorted(found))
        raise DecisionRefused(
            f"'{name}' may mean {told}",
            next_step=f"Write './{name}' for the one whose characters are just these; the other one by a program, "
            "in the terminal, or on the page.",
        )
    return found[0] if found else ""


def _folder(path: str, changes: list[ReviewChange], folders: list[ReviewFolder]) -> ReviewFolder:
    if path and not changes and len(folders) == 1:
        return folders[0]
    total = len(changes) + sum(folder.total for folder in folders)
    inner = sorted(folders, key=lambda one: one.path)
    return ReviewFolder(path, tuple(inner), tuple(sorted(changes, key=lambda one: name_of(one.path))), total)


def _node_json(node: Any) -> dict[str, Any] | None:
    if node is None:
        return None
    told: dict[str, Any] = {"kind": node.kind.value, "mode": f"{node.mode:o}"}
    told |= {"bytes": node.bytes, "sha256": node.sha256} if node.sha256 else {}
    return told | ({"target": node.target} if node.target else {})


def _diff_json(diff: ShownDiff) -> dict[str, Any]:
    """Return the lines of a change, hunk by hunk."""
    return {
        "preview": diff.preview.value,
        "media_type": diff.media_type or None,
        "problem": diff.problem or None,
        "is_divisible": diff.is_divisible,
        "hunks": [
            {"id": hunk.id, "old_start": hunk.old_start, "new_start": hunk.new_start, "lines": list(hunk.lines)}
            for hunk in diff.hunks
        ],
    }


_MOST_LISTED = 5
"""Paths that one sentence names."""


@dataclass(frozen=True)
class ReviewChoice:
    """Accepted parts of a review; a change that is not among them is not accepted."""

    review: Review
    whole: frozenset[str] = frozenset()
    """Paths that are accepted as a whole, of renamed files both."""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Ids of hunks, of files that are accepted in part."""
    edits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Blobs with the texts that a person gave to files, which are accepted so."""
    comments: tuple[LineComment, ...] = ()
    rest: Literal["drop", "keep"] = "drop"
    """Treatment of what is not accepted: files go back to their state before, or stay as they are in the layer."""

    @classmethod
    def of(cls, review: Review, answer: ReviewAnswer) -> ReviewChoice:
        """Return the choice that an answer stands for. Raises DecisionRefused where it is not about this review."""
        whole = frozenset(answer.paths(review.layer, frozenset(review.conflicts)))
        return cls(review, whole, dict(answer.hunks), dict(answer.edits), answer.comments, answer.rest)

    def with_all(self) -> ReviewChoice:
        """Return the choice with every change accepted that is no conflict and is not accepted in part."""
        others = {*self.parts, *self.edits}
        found = (one for one in self.review.changes if not one.conflict and one.path not in others)
        return replace(self, whole=self.whole.union(*(one.change.paths for one in found)))

    def with_change(self, change: ReviewChange, *, accepted: bool) -> ReviewChoice:
        """Return the choice with the change accepted as a whole, or not at all."""
        return self.with_changes([change], accepted=accepted)

    def with_changes(self, changes: Iterable[ReviewChange], *, accepted: bool) -> ReviewChoice:
        """Return the choice with all these changes accepted as a whole, or none of them at all.

        What they need is accepted with them, but for conflicts. With a folder that is not accepted nothing of all that
        is in it is, nor what needs that.
        """
        paths = frozenset(path for change in changes for path in change.change.paths)
        if not accepted:
            return self._with_paths(frozenset(needing(self.review.layer, paths)), accepted=False)
        chosen = self._with_paths(paths, accepted=True)
        needed = joined(self.review.layer, paths).difference(chosen._chosen)
        free = {path for path in needed if not self.review.by_path[path].conflict}
        return replace(chosen, whole=chosen.whole | free)

    def with_ticked(self, change: ReviewChange, *, ticked: bool) -> ReviewChoice:
        """Return the choice with this one change accepted as a whole, or not at all.

        What it needs, and what needs it, is left as it is: such a choice may be none that can be sent.
        """
        return self._with_paths(frozenset(change.change.paths), accepted=ticked)

    def with_names(self, names: Iterable[str], *, accepted: bool) -> ReviewChoice:
        """Return the choice with all that is named accepted, or nothing of it: PATH, or FOLDER/ with all below it.

        A folder accepts no conflict. Raises DecisionRefused for a name that stands for no change.
        """
        chosen: dict[str, ReviewChange] = {}
        for name in names:
            chosen |= {one.path: one for one in self.review.named(name, accepted=accepted)}
        return self.with_changes(chosen.values(), accepted=accepted)

    def with_folder(self, folder: str, *, accepted: bool) -> ReviewChoice:
        """Return the choice with all changes below a folder accepted that are no conflicts, or with none at all.

        Raises DecisionRefused where there are none.
        """
        return self.with_names([f"{folder}/"], accepted=accepted)

    def with_hunks(self, change: ReviewChange, ids: Collection[str], known: Collection[str]) -> ReviewChoice:
        """Return the choice with these hunks of a change and no others; `known` are all that it has, in order."""
        chosen = tuple(one for one in known if one in ids)
        if len(chosen) in (0, len(known)):
            return self.with_ticked(change, ticked=bool(chosen))
        emptied = self.with_ticked(change, ticked=False)
        return replace(emptied, parts={**emptied.parts, change.path: chosen})

    def with_edit(self, change: ReviewChange, blob: str) -> ReviewChoice:
        """Return the choice with a file accepted as a person has edited it. Raises DecisionRefused for no file."""
        if not is_file(change.change.now):
            raise DecisionRefused(f"'{change.path}' is no file that could be edited")
        accepted = self.with_change(change, accepted=True)
        return replace(accepted, whole=accepted.whole - {change.path}, edits={**accepted.edits, change.path: blob})

    def with_comment(self, comment: LineComment) -> ReviewChoice:
        """Return the choice with a remark on a changed file. Raises DecisionRefused for another one."""
        self.review.change(comment.path)
        return replace(self, comments=(*self.comments, comment))

    def state(self, change: ReviewChange) -> Literal["accepted", "in part", "edited", "not accepted"]:
        """Return the state of a change in this choice."""
        if change.path in self.edits:
            return "edited"
        if change.path in self.parts:
            return "in part"
        return "accepted" if change.path in self.whole else "not accepted"

    @property
    def taken_along(self) -> frozenset[str]:
        """Paths that are not accepted, and that an answer would accept all the same: something accepted needs them."""
        chosen = self._chosen
        return frozenset(joined(self.review.layer, chosen) - chosen)

    def with_taken_along(self) -> ReviewChoice:
        """Return the choice with all accepted that is made in fact where it is sent as it is."""
        return replace(self, whole=self.whole | self.taken_along)

    def answer(self) -> ReviewAnswer:
        """Return the answer, with folders in place of all that is in them.

        Raises DecisionRefused for an answer that would accept anything else than this choice.
        """
        if along := self.taken_along:
            raise DecisionRefused(
                f"what is accepted cannot be made without {listed(along)}",
                next_step="Accept these by name, too, or leave out what needs them.",
            )
        return self.draft()

    def draft(self) -> ReviewAnswer:
        """Return the answer of a choice that is not made yet: it may lack changes that are taken along.

        Raises DecisionRefused for one that names other changes than this choice.
        """
        answer = ReviewAnswer(
            changes=self.review.shown.section.digest,
            accept=self._accept(),
            hunks=self.parts,
            edits=self.edits,
            comments=self.comments,
            rest=self.rest,
        )
        accepted = frozenset(answer.paths(self.review.layer, frozenset(self.review.conflicts)))
        if accepted != self.whole.intersection(self.review.layer.changes).difference(self.parts, self.edits):
            raise DecisionRefused("the answer would accept other changes than were chosen", next_step="Name each file.")
        return answer

    @property
    def _chosen(self) -> frozenset[str]:
        return frozenset(self.review.layer.changes.keys() & {*self.whole, *self.parts, *self.edits})

    def _with_paths(self, paths: frozenset[str], *, accepted: bool) -> ReviewChoice:
        return replace(
            self,
            whole=self.whole | paths if accepted else self.whole - paths,
            parts={path: ids for path, ids in self.parts.items() if path not in paths},
            edits={path: blob for path, blob in self.edits.items() if path not in paths},
        )

    def _accept(self) -> tuple[str, ...]:
        changed, conflicts = self.review.layer.changes.keys(), self.review.conflicts.keys()
        left_out = changed - {*self.whole, *self.parts, *self.edits}
        paths = [path for path in changed if path in self.whole]
        if paths and left_out <= conflicts:
            return (ALL, *(named(path) for path in paths if path in conflicts))
        split = {folder for path in changed - self.whole for folder in (path, *above(path))}
        sizes = Counter(folder for path in changed for folder in (path, *above(path)))
        # No folder stands for a conflict.
        accept = dict.fromkeys(named(path) for path in paths if path in conflicts)
        for path in (path for path in paths if path not in conflicts):
            whole = [folder for folder in (path, *above(path)) if folder not in split and sizes[folder] > 1]
            accept[f"{whole[-1]}/" if whole else named(path)] = None
        return tuple(accept)


def listed(paths: Collection[str]) -> str:
    """Return the first of the paths, quoted, for a sentence."""
    named = ", ".join(f"'{path}'" for path in sorted(paths)[:_MOST_LISTED])
    return f"{named} and {len(paths) - _MOST_LISTED} more" if len(paths) > _MOST_LISTED else named


def check_parts(
    choice: ReviewChoice,
    *,
    everything: bool,
    accept: Collection[str],
    in_part: Collection[str] = (),
    edited: Collection[str] = (),
) -> None:
    """Raise UsageError where the parts that a choice was made of contradict each other, or it accepts nothing.

    `everything` says whether all changes were accepted first. `accept` has the names of what is accepted as a whole,
    with `/` at the end of a folder's; `in_part` and `edited` have paths.
    """
    review = choice.review
    for path in in_part:
        if path in accept or path in edited:
            other = "as a whole" if path in accept else "as edited"
            raise UsageError(f"'{path}' is accepted in part and {other}", next_step="Choose one of the two.")
    for name in accept if everything else ():
        if name.endswith("/") or not review.change(name).conflict:
            raise UsageError(
                f"all changes are accepted, and '{name}' is named besides",
                next_step="Accept all, or only what is named; beside all, name conflicts, and what is rejected.",
            )
    for name in (*accept, *in_part, *edited):
        if all(choice.state(one) == "not accepted" for one in review.named(name, accepted=True)):
            raise UsageError(
                f"'{name}' is accepted, and rejected by its own name, its folder's, or that of what it needs",
                next_step="Choose one of the two.",
            )
    if not (choice.whole or choice.parts or choice.edits or choice.comments):
        raise UsageError("it accepts nothing, and says no reason", next_step="Reject all of it, with a reason.")


def compared(review: Review, workshop: Path | None) -> Review:
    """Return the review with the paths that have changed since it was asked; as it is where that cannot be seen.

    Only files on this machine are: each file of the review is read. A review that goes to a git branch, or that was
    answered, is not compared. Blocks.
    """
    if workshop is None or review.shown.branch or not review.question.is_open:
        return review
    try:
        with base_files(workshop) as base:
            # A section may need folders of another one.
            conflicts = against(review.manifest.layer, base, folds=folds_names(base)).conflicts
    except (LlmDoError, OSError):
        return review
    mine = review.layer.changes
    return replace(review, moved={one.path: str(one.kind) for one in conflicts if one.path in mine})


@dataclass(frozen=True)
class ChangeOrigin:
    """Turn of a model in which a change was made."""

    invocation: str
    """Path of the invocation in its run, like `main/editor-1`."""
    turn: int
    """Number of the turn; 0 for a person."""
    words: str
    """Text that the model wrote in that turn, or in the last one before it in which it wrote any; empty: none."""
    words_turn: int
    """Turn of the words; 0 where there are none."""


async def reviews(client: LlmDoClient, run: str) -> list[Review]:
    """Return all review questions of a run, open or decided, in order.

    Of each manifest one blob is read, and no bytes of files. Raises UsageError for an unknown run and where no blob
    store is known, EffectFailed for a manifest that is not there any more.
    """
    asked = [one for one in await client.questions(run) if one.request.extension is not None]
    if not asked:
        return []
    blobs = blobs_of(client.temporal.data_converter)
    if blobs is None:
        raise out_of_reach()
    return await asyncio.to_thread(reviews_of, asked, blobs)


def reviews_of(questions: list[Question], blobs: BlobStore) -> list[Review]:
    """Return the reviews that these questions ask for; others are left out. Raises EffectFailed."""
    manifests: dict[str, ReviewManifest] = {}
    reviews: list[Review] = []
    for question in questions:
        shown = shown_review(question.request)
        if shown is None:
            continue
        if shown.manifest not in manifests:
            manifests[shown.manifest] = _manifest(blobs, shown.manifest)
        reviews.append(Review(question, shown, manifests[shown.manifest], ReviewContents(blobs)))
    return reviews


async def decide_review(
    client: LlmDoClient,
    review: Review,
    answer: ReviewAnswer | None,
    *,
    note: str = "",
    by: str = "",
    hold: int = 0,
    via: str = "",
) -> Approval | None:
    """Decide a review as it was read; None for `answer` rejects all of it, with `note` as the reason.

    None is returned where no worker service has answered yet. Raises DecisionRefused, also for an answer that is not
    about these changes, before anything is sent.
    """
    question = review.question
    kind, args = DecisionKind.REJECT, None
    if answer is None and not note.strip():
        raise UsageError("a review is rejected with a reason, which the model is told")
    if answer is not None:
        await asyncio.to_thread(check_answer, review, answer)
        is_as_asked = question.args == question.request.args and answer == review.answer
        kind = DecisionKind.APPROVE if is_as_asked else DecisionKind.MODIFY
        args = None if is_as_asked else answer.model_dump(mode="json")
    digest = question.request.digest or None
    decision = Decision(id=question.id, decision=kind, digest=digest, args=args, note=note, by=by, hold=hold, via=via)
    return await client.decide(question.run, decision)


def check_answer(review: Review, answer: ReviewAnswer) -> None:
    """Raise DecisionRefused unless the answer fits the review; reads the files of which it accepts parts."""
    if answer.changes != review.shown.section.digest:
        raise DecisionRefused("the answer is about other changes", next_step="Look at the review again.")
    answer.paths(review.layer, frozenset(review.conflicts))
    for path in (*answer.edits, *(comment.path for comment in answer.comments)):
        review.change(path)
    for path, ids in answer.hunks.items():
        review.contents.check_hunks(review.change(path).change, ids)


async def read_origin(client: LlmDoClient, review: Review, change: ReviewChange) -> ChangeOrigin:
    """Return the turn that made a change, with the words of the model. Raises UsageError where it is not kept."""
    author = change.change.author
    words, turn = "", 0
    if author.turn:
        run = review.question.run
        async with translated(run):
            page = await read_part_with(client.temporal, workflow_id_of(run, author.invocation), author.turn)
        texts = [one for one in page.entries if one.kind == "text" and one.turn <= author.turn]
        turn = max((one.turn for one in texts), default=0)
        words = "\n\n".join(one.text for one in texts if one.turn == turn)
    return ChangeOrigin(author.invocation, author.turn, words, turn)


def _manifest(blobs: BlobStore, name: str) -> ReviewManifest:
    try:
        return ReviewManifest.model_validate_json(blobs.read(name))
    except ValidationError:
        raise EffectFailed(
            f"blob '{name}' is no review", next_step="A review is read by the version that wrote it, or a later one."
        ) from None


async def read_patch(client: LlmDoClient, run: str, workshop: Path | None = None) -> str:
    """Return the patch of all that the run's open review proposes, that it has kept aside, else of its last commit.

    `workshop` has the files that changes kept aside are held against. Raises UsageError for a run that has none of
    these, and where no blob store is known, EffectFailed for missing bytes.
    """
    reviews = await client.reviews(run)
    waiting = {one.shown.manifest: one for one in reviews if one.question.is_open}
    if waiting:
        layers = [(one.contents, one.manifest.layer) for one in waiting.values()]
        return "".join([await asyncio.to_thread(contents.patch, layer) for contents, layer in layers])
    invocations = dict.fromkeys([run, *(one.question.request.invocation for one in reviews)])
    blobs = blobs_of(client.temporal.data_converter)
    if blobs is None:
        raise out_of_reach()
    aside = await _aside(client.temporal, run)
    if aside is not None:
        return await asyncio.to_thread(_patch_aside, blobs, aside, workshop)
    async with translated(run):
        found = [name for one in invocations for name in await _committed(client.temporal, one)]
    if not found:
        raise UsageError(f"run '{run}' has no changes that wait for a review or stay aside, and has committed none")
    made = Layer.model_validate_json(await asyncio.to_thread(blobs.read, found[-1]))
    return await asyncio.to_thread(ReviewContents(blobs).patch, made)


async def _committed(client: Client, workflow_id: str) -> list[str]:
    """Return the blobs of the layers that an invocation has committed, in order."""
    asked: dict[int, str] = {}
    found: list[str] = []
    async for event in read_chain(client, workflow_id, None, wait=False):
        if event.HasField("workflow_execution_started_event_attributes"):
            asked.clear()
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == COMMIT_CHANGES.name:
            asked[event.event_id] = str(first_object(scheduled.input.payloads).get("manifest") or "")
        completed = event.activity_task_completed_event_attributes
        manifest = asked.pop(completed.scheduled_event_id, "")
        if manifest and first_object(completed.result.payloads).get("committed"):
            found.append(manifest)
    return found


async def _aside(client: Client, run: str) -> CarriedLayer | None:
    """Return all changes of a run that has kept them aside; None for any other run, and one that changed nothing."""
    handle = client.get_workflow_handle(run)
    async with translated(run):
        # Asked for the end of a run that goes on, the server waits for it, for a while.
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            return None
        events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
        last = await anext(events, None)
        if last is None:
            return None
        await put_back(last, client.data_converter)
    layer = first_object(last.workflow_execution_completed_event_attributes.result.payloads).get("layer")
    return None if layer is None else CarriedLayer.model_validate(layer)


def _patch_aside(blobs: BlobStore, aside: CarriedLayer, workshop: Path | None) -> str:
    contents = LayerContents(blobs)
    layer = contents.whole(aside)
    if workshop is not None:
        with base_files(workshop, contents=contents) as base:
            layer = contents.with_bases(layer, base)
    if moved := without_bases(layer):
        raise UsageError(
            f"'{moved[0]}' is no longer as it was when the run changed it, so no patch fits",
            next_step="Try the worker again, over the files as they are now.",
        )
    return ReviewContents(blobs).patch(layer)
