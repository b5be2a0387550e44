"""Inputs and results of the activities."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from llm_do_temporal.messages.answers import ScriptedAnswer
from llm_do_temporal.messages.approvals import (
    DeliverDecisionInput,
    DeliverVotesInput,
    IgnoredDecision,
    RequestApprovalInput,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.base import Json, Message, is_empty, is_none
from llm_do_temporal.messages.batches import BatchItem, InputFiles
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker, RunSettings
from llm_do_temporal.messages.delegation import BuiltInput
from llm_do_temporal.messages.external import ToolCaller
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.attachments import Attachment, AttachmentPolicy
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.layers.layer import LayerUpdate
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
    """Checked input of an entry worker with `schema_in_ref`."""
    tree: Tree
    """The workshop's own tree, before the entry worker narrows it."""
    notify: NotifySettings = NotifySettings()
    prompt: str | None = None
    """Prompt of an entry worker that is a template."""
    template: CalledTemplate | None = None
    """Template that the entry worker was made from; None if it has a file of its own."""
    script: tuple[ScriptedAnswer, ...] = Field(default=(), exclude_if=is_empty)
    """Answers of the desk, those of the start before those of a fork's record."""


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
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""


class FileText(Message):
    """Result of `read_file`."""

    content: str
    truncated: bool
    total_chars: int
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""


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
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.content_keys`. Empty: it has none."""


class EditFileInput(Message):
    """Input of `edit_file` and of `preview_edit`."""

    mount: Mount
    relative: str
    path: str
    old_text: str
    new_text: str
    definitions: bool = False
    """Whether it was judged as writing a file that defines workers."""
    expected: SeenFile | None = None
    """The file as it was shown; one that is not like this is not changed. None: any will do."""
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.content_keys`. Empty: it has none."""


class FileChange(Message):
    """Result of the writing activities and of their previews."""

    path: str
    bytes: int
    created: bool
    diff: str
    seen: SeenFile
    """The file before."""
    layer: LayerUpdate | None = Field(default=None, exclude_if=is_none)
    """Changes of the layer that it worked on; None: it worked on no layer."""


class ListFilesInput(Message):
    """Input of `list_files`."""

    tree: Tree
    path: str
    pattern: str
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""


class FileEntry(Message):
    """File in a listing."""

    path: str
    bytes: int


class FileListing(Message):
    """Result of `list_files`."""

    files: tuple[FileEntry, ...]
    truncated: bool = False
    note: str = Field(default="", exclude_if=is_empty)
    """Remark for the model on files that are left out, or on a pattern that may mean something else; empty: none."""
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""


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
    """Number of the first words that are the author's, and no paths of the model's."""
    network: bool = False
    settings: ShellSettings = ShellSettings()
    expected: tuple[SeenFile, ...] | None = None
    """The files among the words as they were shown; where they differ nothing is run. None: any will do."""
    expected_isolated: bool | None = None
    """Whether it was shown as isolated; where it would not run like that, it does not. None: either will do."""
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files. Where commands have no layers, `run_command` fails with
    LayerUnavailable and runs nothing."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.content_keys`. Empty: it has none."""


class CommandOutput(Message):
    """Output of a command on one stream."""

    text: str
    """The beginning, as UTF-8 with replacement characters."""
    bytes: int
    """Number of bytes that were written."""
    truncated: bool = False
    sha256: str | None = None
    """The blob with the output, where the text is only its beginning."""
    kept_bytes: int = 0
    """Number of bytes in the blob: fewer than were written if the output was enormous."""


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
    layer: LayerUpdate | None = Field(default=None, exclude_if=is_none)
    """Changes of the layer that it worked on; None: it worked on no layer."""


class CommandPreview(Message):
    """Result of `preview_command`: how the command would run."""

    isolated: bool
    files: tuple[SeenFile, ...]
    """Files among the words of the command."""
    note: str = ""
    """Reason why the command can make no files in some folders, and what to do; empty where it can."""


class SnapshotInput(Message):
    """Input of `snapshot_attachments`."""

    files: tuple[AttachedFile, ...]
    max_total_bytes: int
    """Stop copying past this many bytes: the policies would refuse the files anyway."""
    tree: Tree = Tree()
    """Tree in which a path of the host must lie to count; the empty tree takes none."""
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""


class SnapshotResult(Message):
    """Result of `snapshot_attachments`."""

    attachments: tuple[Attachment, ...] = Field(default=())
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""


class ReadInputsInput(Message):
    """Input of `read_inputs`."""

    files: InputFiles
    policy: AttachmentPolicy
    worker: str
    """Name of the worker whose policy that is."""
    given: tuple[Attachment, ...] = ()
    """Attachments that the run has already."""


class ReadInputs(Message):
    """Result of `read_inputs`."""

    attachments: tuple[Attachment, ...] = ()
    items: tuple[BatchItem, ...] | None = None
    """Items as they are now, perhaps none at all; None for a run that is no batch."""


class FindFilesInput(Message):
    """Input of `find_files`: paths that may or may not name files."""

    files: tuple[AttachedFile, ...]
    digests: bool = False
    """Whether their bytes are wanted, too."""
    near: bool = False
    """Whether to look for what was meant where there is none."""
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""


class FoundFiles(Message):
    """Result of `find_files`, in the order asked."""

    bytes: tuple[int | None, ...]
    """None where there is no such file, or none that may be read."""
    seen: tuple[SeenFile, ...] = ()
    """The files as they are, where digests were asked for; one without a digest is not there."""
    near: dict[str, str] = Field(default_factory=dict)
    """File with the most similar name beside a path that is not there, by that path; empty if not asked for."""
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""


class CallPythonToolInput(Message):
    """Input of `call_python_tool`."""

    tool: str
    source: str
    """The function's file, as `PythonTool.source` has it."""
    sha256: str
    """Digest that the file must have: the definition is pinned."""
    args: dict[str, Any]
    idempotency_key: str
    caller: ToolCaller
    """Invocation that it works for."""
    limit_seconds: float | None = None
    """Seconds that an attempt may take, waiting for workers not counted; None for as long as the activity."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.content_keys`. Empty: it has none."""


class PythonToolResult(Message):
    """Result of `call_python_tool`."""

    value: Json = None


class HeldNews(Message):
    """News of a decision that is held, or was taken back."""

    id: str
    """Id of the approval."""
    held: Verdict | None = None
    """None: the decision was taken back, and the question is open again."""


class DeskRecord(Message):
    """Input and result of `record_at_desk`: news between a run's desk and its entry invocation, and of decisions that
    are held.

    Both are in one workflow, so nothing is sent. The history keeps the news as the result of a local activity.
    Exactly one field is set.
    """

    asked: RequestApprovalInput | None = None
    """Question of the entry invocation."""
    withdrawn: WithdrawApprovalsInput | None = None
    """Questions that the entry invocation takes back."""
    decided: DeliverDecisionInput | None = None
    """Answer of the desk."""
    voted: DeliverVotesInput | None = None
    """Votes so far on a question that several people must agree to."""
    held: HeldNews | None = Field(default=None, exclude_if=is_none)
    """Decision on a question of any invocation that does not take effect yet, or was taken back."""
    ignored: IgnoredDecision | None = Field(default=None, exclude_if=is_none)
    """Signal from outside that could not be taken."""
