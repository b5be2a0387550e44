"""Review: the changes of one review question, in a form that people and programs look at.

Ten thousand changed files are one blob to read; the bytes of a file are read from the blob store when somebody looks at
it, and never before. All else is pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import DecisionRefused, EffectFailed, UsageError
from llm_do_temporal.extensions.review.messages import ShownReview
from llm_do_temporal.extensions.review.policy.answer import ReviewAnswer
from llm_do_temporal.extensions.review.policy.sections import ReviewManifest, Section
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.changes import LayerChange, LayerChangeKind
from llm_do_temporal.policy.layers.layer import Layer, LayerNode, NodeKind, is_file
from llm_do_temporal.policy.layers.patch import Hunk, file_hunks, patch_of, text_of
from llm_do_temporal.policy.layers.paths import above, name_of, parent_of
from llm_do_temporal.redaction.hidden_characters import KnownNames, shown_name
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.snapshots import SNIFFED_BYTES, guess_media_type

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
            "changes": list(self._changes_json(lines=lines, only=only)),
        }

    def _changes_json(self, *, lines: bool, only: Container[str] | None) -> Iterator[dict[str, Any]]:
        for change in self.changes:
            if only is not None and change.path not in only:
                continue
            told = change.as_json()
            yield told | _diff_json(self.diff(change)) if lines else told

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
