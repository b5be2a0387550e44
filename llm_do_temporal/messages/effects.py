"""Inputs and results of the activities."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from llm_do_temporal.messages.base import Json, Message
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker, RunSettings
from llm_do_temporal.messages.delegation import BuiltInput
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.worker_calls import ToolCaller
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.notifications import NotifySettings
from llm_do_temporal.policy.shell import ShellSettings


class LoadRunInput(Message):
    """Input of `load_run`: the entry worker and the workshop's settings."""

    start: StartRunInput


class LoadedRun(Message):
    """Result of `load_run`."""

    worker: PinnedWorker
    settings: RunSettings
    built: BuiltInput | None = None
    """For an entry worker with `schema_in_ref`: its input, checked."""
    tree: Tree
    """The workshop's own tree, before the entry worker narrows it."""
    notify: NotifySettings = NotifySettings()
    prompt: str | None = None
    """For an entry worker that is a template: what it is told."""
    template: CalledTemplate | None = None
    """That template."""


class LoadWorkerInput(Message):
    """Input of `load_worker`."""

    name: str
    run_python: bool = True
    """Whether to run the Python that the worker names; before the call was allowed, none is."""


class ReadFileInput(Message):
    """Input of `read_file`."""

    mount: Mount
    relative: str
    path: str
    max_chars: int
    offset: int
    expected: SeenFile | None = None
    """The file as it was shown; one that is not like this is not read. None: any will do."""


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
    definitions: bool = False
    """Whether it was judged as writing a file that defines workers."""
    expected: SeenFile | None = None
    """The file as it was shown; one that is not like this is not changed. None: any will do."""


class EditFileInput(Message):
    """Input of `edit_file` and of `preview_edit`."""

    mount: Mount
    relative: str
    path: str
    old_text: str
    new_text: str
    definitions: bool = False
    """As in WriteFileInput."""
    expected: SeenFile | None = None
    """The file as it was shown; one that is not like this is not changed. None: any will do."""


class FileChange(Message):
    """Result of the writing activities and of their previews."""

    path: str
    bytes: int
    created: bool
    diff: str
    seen: SeenFile | None = None
    """The file before; None where an earlier version looked."""


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

    mount: Mount | None
    """None: `path` lies nowhere in the tree, but may be how the host calls a file of it."""
    relative: str
    path: str


class ShellInput(Message):
    """Input of `run_command` and of `preview_command`."""

    argv: tuple[str, ...]
    tree: Tree
    cwd: str
    """The working directory, as a virtual path."""
    timeout_seconds: int
    sandbox_paths: tuple[str, ...] | None = None
    """Virtual folders that are all it can reach; None: all of the tree. Without isolation, every argument is held to
    them that is no plain option."""
    spelled: int = 1
    """How many of the first words are the author's, and no paths of the model's."""
    network: bool = False
    settings: ShellSettings = ShellSettings()
    expected: tuple[SeenFile, ...] | None = None
    """The files among the words as they were shown; where they differ nothing is run. None: any will do."""
    expected_isolated: bool | None = None
    """Whether it was shown as isolated; where it would not run like that, it does not. None: either will do."""


class CommandOutput(Message):
    """What a command wrote to one stream."""

    text: str
    """The beginning, as UTF-8 with replacement characters."""
    bytes: int
    """How many were written."""
    truncated: bool = False
    sha256: str | None = None
    """The blob with the output, where the text is only its beginning."""
    kept_bytes: int = 0
    """How many bytes the blob holds: fewer than were written where the output was enormous."""


class ShellResult(Message):
    """Result of `run_command`."""

    exit_code: int
    """128 and the number of the signal for a command that one ended, as shells count."""
    stdout: CommandOutput
    stderr: CommandOutput
    timed_out: bool = False
    isolated: bool = True
    note: str | None = None
    """Why it ran without isolation."""


class CommandPreview(Message):
    """Result of `preview_command`: how the command would run."""

    isolated: bool
    files: tuple[SeenFile, ...] | None = None
    """What is a file among the words of the command; None where an earlier version looked."""


class SnapshotInput(Message):
    """Input of `snapshot_attachments`."""

    files: tuple[AttachedFile, ...]
    max_total_bytes: int
    """Stop copying past this many bytes: the policies would refuse the files anyway."""
    tree: Tree = Tree()
    """Where a path of the host must lie to count; the empty tree takes none."""


class SnapshotResult(Message):
    """Result of `snapshot_attachments`."""

    attachments: tuple[Attachment, ...] = Field(default=())


class FindFilesInput(Message):
    """Input of `find_files`: paths that may or may not name files."""

    files: tuple[AttachedFile, ...]
    digests: bool = False
    """Whether their bytes are wanted, too."""
    near: bool = False
    """Whether to look for what was meant where there is none."""


class FoundFiles(Message):
    """Result of `find_files`, in the order asked."""

    bytes: tuple[int | None, ...]
    """None where there is no such file, or none that may be read."""
    seen: tuple[SeenFile, ...] = ()
    """The files as they are, where digests were asked for; one without a digest is not there."""
    near: dict[str, str] = Field(default_factory=dict)
    """By the path of one that is not there, where that was asked for: the file beside it whose name is most like it."""


class CallPythonToolInput(Message):
    """Input of `call_python_tool`."""

    tool: str
    source: str
    """The function's file, as `PythonTool.source` has it."""
    sha256: str
    """What the file's digest has to be: the definition is pinned."""
    args: dict[str, Any]
    idempotency_key: str
    caller: ToolCaller | None = None
    """Whom it works for; None where an earlier version scheduled it."""
    limit_seconds: float | None = None
    """How long an attempt may take, less what it waits for workers; None: as long as the activity."""


class PythonToolResult(Message):
    """Result of `call_python_tool`."""

    value: Json = None
