"""The file activities: read, write, edit and list the files of a tree, say what a change would be, and join layers.

Scheduled by workflow code once policy has let a file tool do it, or when a child returns. The work itself is that of
`sandbox.changes`, `sandbox.listing` and `policy.layers.merge`. All of it may be attempted twice: reading is
harmless, and writing the same again changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.messages.activities import (
    EDIT_FILE,
    JOIN_LAYERS,
    LIST_FILES,
    PREVIEW_EDIT,
    PREVIEW_WRITE,
    READ_FILE,
    WRITE_FILE,
    EditFileInput,
    FileChange,
    FileListing,
    FileText,
    ListFilesInput,
    ReadFileInput,
    WriteFileInput,
)
from llm_do_temporal.messages.layers import JoinedLayers, JoinLayersInput, LayerWork
from llm_do_temporal.policy.files.sandbox import path_in_tree
from llm_do_temporal.policy.layers.merge import merged
from llm_do_temporal.sandbox.changes import SandboxFiles, TextFiles
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.files import files_of, update_of
from llm_do_temporal.sandbox.listing import list_tree
from llm_do_temporal.sandbox.safe_open import OpenBelow
from llm_do_temporal.storage.blobs import BlobStore


class FileActivities:
    """Activities on the files of a workshop, or of a layer over them, where the call works on one.

    What a call writes to a layer is in its result; the workshop's files stay as they are.
    """

    def __init__(self, workshop: Path, blobs: BlobStore, open_below: OpenBelow | None = None) -> None:
        """`open_below` is for systems (and tests) with one way of opening files."""
        self._workshop = workshop
        self._contents = LayerContents(blobs)
        self._open_below = open_below

    @activity.defn(name=READ_FILE.name)
    def read_file(self, asked: ReadFileInput) -> FileText:
        """The file's text from character `offset` on, at most `max_chars` (and 1,000,000) of it."""
        with user_errors():
            return TextFiles(self._workshop, self._files(asked.layer)).read(asked)

    @activity.defn(name=WRITE_FILE.name)
    def write_file(self, asked: WriteFileInput) -> FileChange:
        """Put `content` into the file, whole or not at all; missing folders are made, permissions are kept.

        Writing what is there already changes nothing and returns an empty diff.
        """
        with user_errors():
            return self._changed(asked)

    @activity.defn(name=PREVIEW_WRITE.name)
    def preview_write(self, asked: WriteFileInput) -> FileChange:
        """Return the change that `write_file` would make, or fail with its error. Changes nothing."""
        with user_errors():
            return TextFiles(self._workshop, self._files(asked.layer)).change(asked, apply=False)

    @activity.defn(name=EDIT_FILE.name)
    def edit_file(self, asked: EditFileInput) -> FileChange:
        """Put `new_text` in the place of `old_text`, which must occur exactly once.

        A second attempt or activity cannot know for sure whether the first one got that far. It takes the edit as made
        where `new_text` occurs exactly once and `old_text` nowhere outside of it (for an empty `new_text`:
        where `old_text` does not occur), and returns an empty diff. A layer is as it was before the first one.
        """
        with user_errors():
            retried = asked.retried or activity.info().attempt > 1
            return self._changed(asked, retried=asked.layer is None and retried)

    @activity.defn(name=PREVIEW_EDIT.name)
    def preview_edit(self, asked: EditFileInput) -> FileChange:
        """Return the change that `edit_file` would make, or fail with its error. Changes nothing."""
        with user_errors():
            return TextFiles(self._workshop, self._files(asked.layer)).change(asked, apply=False)

    @activity.defn(name=LIST_FILES.name)
    def list_files(self, asked: ListFilesInput) -> FileListing:
        """The files below the folder `path` whose path below it matches `pattern`, sorted, at most 2,000."""
        with user_errors():
            return list_tree(self._files(asked.layer), asked)

    def _files(self, layer: LayerWork | None) -> SandboxFiles:
        return files_of(self._workshop, layer, self._contents, self._open_below)

    def _changed(self, asked: WriteFileInput | EditFileInput, *, retried: bool = False) -> FileChange:
        files = self._files(asked.layer)
        change = TextFiles(self._workshop, files).change(asked, apply=True, retried=retried)
        return change.model_copy(update={"layer": update_of(files)})


MAX_TOLD = 50
"""Most conflicts that are told one by one: they are read by a model, in one result."""


class LayerActivities:
    """Layers of one workshop."""

    def __init__(self, blobs: BlobStore) -> None:
        self._contents = LayerContents(blobs)

    @activity.defn(name=JOIN_LAYERS.name)
    def join_layers(self, asked: JoinLayersInput) -> JoinedLayers:
        """Join what the child has changed since it began with the layer of its caller; of a conflict the caller's side
        stays. A second attempt comes to the same.
        """
        with user_errors():
            mine = self._contents.whole(asked.mine)
            merge = merged(mine, self._contents.whole(asked.child), self._contents.whole(asked.fork))
            return JoinedLayers(
                update=self._contents.update_of(asked.mine, mine, merge.layer),
                conflicts=tuple(
                    f"{path_in_tree(asked.tree, conflict.path)}: {conflict.kind}"
                    for conflict in merge.conflicts[:MAX_TOLD]
                ),
                more=max(0, len(merge.conflicts) - MAX_TOLD),
            )
