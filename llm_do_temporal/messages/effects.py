"""Inputs and results of the activities."""

from __future__ import annotations

from pydantic import Field

from llm_do_temporal.messages.base import Message
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.attachments import Attachment
from llm_do_temporal.policy.sandbox import Mount, Tree


class LoadRunInput(Message):
    """Input of `load_run`: the entry worker and the workshop's settings."""

    start: StartRunInput


class LoadedRun(Message):
    """Result of `load_run`."""

    worker: PinnedWorker
    settings: RunSettings
    tree: Tree
    """The workshop's own tree, before the entry worker narrows it."""


class LoadWorkerInput(Message):
    """Input of `load_worker`."""

    name: str


class ReadFileInput(Message):
    """Input of `read_file`."""

    mount: Mount
    relative: str
    path: str
    max_chars: int
    offset: int


class FileText(Message):
    """Result of `read_file`."""

    content: str
    truncated: bool
    total_chars: int


class WriteFileInput(Message):
    """Input of `write_file` and of `preview_write`."""

    mount: Mount
    relative: str
    path: str
    content: str


class EditFileInput(Message):
    """Input of `edit_file` and of `preview_edit`."""

    mount: Mount
    relative: str
    path: str
    old_text: str
    new_text: str


class FileChange(Message):
    """Result of the writing activities and of their previews."""

    path: str
    bytes: int
    created: bool
    diff: str


class ListFilesInput(Message):
    """Input of `list_files`."""

    tree: Tree
    path: str
    pattern: str


class FileEntry(Message):
    """One file in a listing."""

    path: str
    bytes: int


class FileListing(Message):
    """Result of `list_files`."""

    files: tuple[FileEntry, ...]
    truncated: bool = False


class AttachedFile(Message):
    """A file to snapshot: where it is, and the name it goes by."""

    mount: Mount
    relative: str
    path: str


class SnapshotInput(Message):
    """Input of `snapshot_attachments`."""

    files: tuple[AttachedFile, ...]
    max_total_bytes: int
    """Stop copying past this many bytes: the policies would refuse the files anyway."""


class SnapshotResult(Message):
    """Result of `snapshot_attachments`."""

    attachments: tuple[Attachment, ...] = Field(default=())
