"""Contents of reviewed files, read from the blob store when somebody looks at one, and never before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from llm_do_temporal.errors import DecisionRefused, EffectFailed
from llm_do_temporal.policy.layers.changes import LayerChange, LayerChangeKind
from llm_do_temporal.policy.layers.hunks import Hunk, file_hunks, text_of
from llm_do_temporal.policy.layers.layer import Layer
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind
from llm_do_temporal.policy.layers.patch import patch_of
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
        text = text_of(self.bytes(node, path)) if node.kind is NodeKind.FILE and _is_small(node) else None
        if text is None:
            raise DecisionRefused(f"'{path}' is no text that could be edited; accept it as it is, or not at all")
        return text

    def keep(self, text: str) -> str:
        """Keep the text that a person gave to a file, and return the name of its blob, for `ReviewAnswer.edits`."""
        return self._contents.keep(text.encode(), "the edited file").blob

    def diff(self, change: LayerChange) -> ShownDiff:
        """Return the change as it can be shown. Bytes that cannot be had are told in its `problem`."""
        node = change.now or change.base
        if node is None or node.kind is not NodeKind.FILE:
            return ShownDiff(Preview.FOLDER if node is None or node.kind is NodeKind.FOLDER else Preview.LINK)
        too_large = [one for one in (change.base, change.now) if one is not None and not _is_small(one)]
        if too_large:
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
        before, after = (shown, b"") if change.now is None else (self._before(change), shown)
        hunks = file_hunks(before, after)
        if hunks is None and preview is Preview.TEXT and text_of(before) is None:
            new = file_hunks(b"", after)
            return ShownDiff(preview, new.hunks if new else (), media_type=media_type, problem=_NO_TEXT_BEFORE)
        if hunks is None:
            return ShownDiff(preview, media_type=media_type)
        sides = (change.base, change.now)
        is_divisible = all(one is not None and one.kind is NodeKind.FILE for one in sides)
        return ShownDiff(preview, hunks.hunks, is_divisible, media_type)

    def _before(self, change: LayerChange) -> bytes:
        """Return the bytes before the change; none where no file was there."""
        base = change.base
        return b"" if base is None or base.kind is not NodeKind.FILE else self.bytes(base, change.path)


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
