"""The file activities: read, write, edit and list the files of a tree, and say what a change would be.

Scheduled by workflow code once policy has let a file tool do it. The work itself is that of `sandbox.text_files` and
`sandbox.listing`. All of it may be attempted twice: reading is harmless, and writing the same again changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.messages.activities import (
    EDIT_FILE,
    LIST_FILES,
    PREVIEW_EDIT,
    PREVIEW_WRITE,
    READ_FILE,
    WRITE_FILE,
)
from llm_do_temporal.messages.effects import (
    EditFileInput,
    FileChange,
    FileListing,
    FileText,
    ListFilesInput,
    ReadFileInput,
    WriteFileInput,
)
from llm_do_temporal.sandbox.listing import list_tree
from llm_do_temporal.sandbox.safe_open import OpenBelow, WorkshopFolder
from llm_do_temporal.sandbox.text_files import TextFiles


class FileActivities:
    """Activities on the files of a workshop; `open_below` is for systems (and tests) with one way of opening files."""

    def __init__(self, workshop: Path, open_below: OpenBelow | None = None) -> None:
        self._folder = WorkshopFolder(workshop, open_below)
        self._texts = TextFiles(workshop, open_below)

    @activity.defn(name=READ_FILE.name)
    def read_file(self, asked: ReadFileInput) -> FileText:
        """The file's text from character `offset` on, at most `max_chars` (and 1,000,000) of it."""
        with user_errors():
            return self._texts.read(asked)

    @activity.defn(name=WRITE_FILE.name)
    def write_file(self, asked: WriteFileInput) -> FileChange:
        """Put `content` into the file, whole or not at all; missing folders are made, permissions are kept.

        Writing what is there already changes nothing and returns an empty diff.
        """
        with user_errors():
            return self._texts.write(asked)

    @activity.defn(name=PREVIEW_WRITE.name)
    def preview_write(self, asked: WriteFileInput) -> FileChange:
        """Return the change that `write_file` would make, or fail with its error. Changes nothing."""
        with user_errors():
            return self._texts.preview_write(asked)

    @activity.defn(name=EDIT_FILE.name)
    def edit_file(self, asked: EditFileInput) -> FileChange:
        """Put `new_text` in the place of `old_text`, which must occur exactly once.

        A second attempt cannot know for sure whether the first one got that far. It takes the edit as done
        where `new_text` occurs exactly once and `old_text` nowhere outside of it (for an empty `new_text`:
        where `old_text` does not occur), and returns an empty diff.
        """
        with user_errors():
            return self._texts.edit(asked, retried=activity.info().attempt > 1)

    @activity.defn(name=PREVIEW_EDIT.name)
    def preview_edit(self, asked: EditFileInput) -> FileChange:
        """Return the change that `edit_file` would make, or fail with its error. Changes nothing."""
        with user_errors():
            return self._texts.preview_edit(asked)

    @activity.defn(name=LIST_FILES.name)
    def list_files(self, asked: ListFilesInput) -> FileListing:
        """The files below the folder `path` whose path below it matches `pattern`, sorted, at most 2,000."""
        with user_errors():
            return list_tree(self._folder, asked)
