"""Activities: the wire name of each, its request and its result.

Workflows run an activity by its reference, the activity's own definition takes its name from there, and the reference
page of the wire is written from it. The activities themselves are in `llm_do_temporal.activities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import Field, model_validator

from llm_do_temporal.messages.approvals import (
    DecisionKind,
    DeliverDecisionInput,
    DeliverVotesInput,
    IgnoredDecision,
    RequestApprovalInput,
    ScriptedAnswer,
    Verdict,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.base import Json, Message, is_empty, is_none
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.conversation import KeepConversationInput, KeptConversation
from llm_do_temporal.messages.definitions import (
    CalledTemplate,
    ExternalToolListing,
    ExternalToolset,
    PinnedWorker,
    RunSettings,
)
from llm_do_temporal.messages.layers import JoinedLayers, JoinLayersInput, LayerWork
from llm_do_temporal.messages.runs import BatchItem, InputFiles, ItemCounts, StartRunInput
from llm_do_temporal.messages.sizes import MAX_CALL_FOR_TOOL_BYTES
from llm_do_temporal.policy.files.attachments import Attachment, AttachmentPolicy
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.layers.layer import LayerUpdate
from llm_do_temporal.policy.notifications import NotifyEvent, NotifySettings, NotifyTarget
from llm_do_temporal.policy.shell import ShellSettings

CALL_FOR_TOOL_UPDATE = "call_for_tool"
"""Update from an activity that carries out a tool to the invocation that it works for; carries a CallForToolInput."""


class LayerInput(Message):
    """Base of inputs of activities that work on files."""

    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""


class CallInput(Message):
    """Base of inputs of activities that carry out a call."""

    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.identity`. Empty: it has none."""


class ReadResult(Message):
    """Base of results of activities that only read."""

    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.identity`. Empty: it has none."""


class LayerResult(Message):
    """Base of results of activities that may change a layer."""

    layer: LayerUpdate | None = Field(default=None, exclude_if=is_none)
    """Changes of the layer that it worked on; None: it worked on no layer."""


class FileInput(LayerInput):
    """Base of inputs about one file."""

    mount: Mount
    relative: str
    path: str
    expected: SeenFile | None = None
    """The file as it was shown; one that is not like this is neither read nor changed. None: any will do."""


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


class ReadFileInput(FileInput):
    """Input of `read_file`."""

    max_chars: int
    offset: int


class FileText(ReadResult):
    """Result of `read_file`."""

    content: str
    truncated: bool
    total_chars: int


class WriteFileInput(FileInput, CallInput):
    """Input of `write_file` and of `preview_write`."""

    content: str
    definitions: bool = False
    """Whether it was judged as writing a file that defines workers."""


class EditFileInput(FileInput, CallInput):
    """Input of `edit_file` and of `preview_edit`."""

    old_text: str
    new_text: str
    retried: bool = False
    """Whether an activity before this one, whose end is not known, may have made the edit."""
    definitions: bool = False
    """Whether it was judged as writing a file that defines workers."""


class FileChange(LayerResult):
    """Result of the writing activities and of their previews."""

    path: str
    bytes: int
    created: bool
    diff: str
    seen: SeenFile
    """The file before."""


class ListFilesInput(LayerInput):
    """Input of `list_files`."""

    tree: Tree
    path: str
    pattern: str


class FileEntry(Message):
    """File in a listing."""

    path: str
    bytes: int


class FileListing(ReadResult):
    """Result of `list_files`."""

    files: tuple[FileEntry, ...]
    truncated: bool = False
    note: str = Field(default="", exclude_if=is_empty)
    """Remark for the model on files that are left out, or on a pattern that may mean something else; empty: none."""


class AttachedFile(Message):
    """A file to snapshot: where it is, and the name it goes by."""

    mount: Mount | None
    """None: `path` lies nowhere in the tree, but may be how the host calls a file of it."""
    relative: str
    path: str


class ShellInput(CallInput):
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


class ShellResult(LayerResult):
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
    files: tuple[SeenFile, ...]
    """Files among the words of the command."""
    note: str = ""
    """Reason why the command can make no files in some folders, and what to do; empty where it can."""


class SnapshotInput(LayerInput):
    """Input of `snapshot_attachments`."""

    files: tuple[AttachedFile, ...]
    max_total_bytes: int
    """Stop copying past this many bytes: the policies would refuse the files anyway."""
    tree: Tree = Tree()
    """Tree in which a path of the host must lie to count; the empty tree takes none."""


class SnapshotResult(ReadResult):
    """Result of `snapshot_attachments`."""

    attachments: tuple[Attachment, ...] = Field(default=())


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


class FindFilesInput(LayerInput):
    """Input of `find_files`: paths that may or may not name files."""

    files: tuple[AttachedFile, ...]
    digests: bool = False
    """Whether their bytes are wanted, too."""
    near: bool = False
    """Whether to look for what was meant where there is none."""


class FoundFiles(ReadResult):
    """Result of `find_files`, in the order asked."""

    bytes: tuple[int | None, ...]
    """None where there is no such file, or none that may be read."""
    seen: tuple[SeenFile, ...] = ()
    """The files as they are, where digests were asked for; one without a digest is not there."""
    near: dict[str, str] = Field(default_factory=dict)
    """File with the most similar name beside a path that is not there, by that path; empty if not asked for."""


class CallPythonToolInput(CallInput):
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


class DraftWorkerInput(Message):
    """Input of `draft_worker`: what a model says of the worker it wants."""

    name: str
    instructions: str
    description: str
    output_schema_ref: str | None = None
    model: str | None = None


class WorkerDraft(Message):
    """Result of `draft_worker`: the file as it would be written."""

    source: str
    """Path relative to the workshop."""
    text: str


class SaveWorkerInput(LayerInput, CallInput):
    """Input of `save_worker`."""

    name: str
    text: str
    """The file, as a person has seen it."""


class SavedWorker(LayerResult):
    """Result of `save_worker`."""

    source: str
    takes_attachments: bool = True


class LoadTemplateInput(Message):
    """Input of `load_template`."""

    template: str
    """A path below the workshop, or `pkg:name`."""
    params: dict[str, str]
    input: str
    run_python: bool = True
    """Whether to run the Python that the template names; before the call was allowed, none is."""


class LoadedTemplate(ReadResult):
    """Result of `load_template`: the template as a worker, and what it is told."""

    worker: PinnedWorker
    prompt: str
    template: CalledTemplate


class BuildInputInput(Message):
    """Input of `build_input`."""

    worker: str
    """Name of the worker whose input this is; `pkg:name` for one that ships with the package."""
    reference: str
    """The `schema_in_ref` of that worker."""
    values: Any
    """Values that it was given."""


class CheckOutputInput(Message):
    """Input of `check_output`."""

    worker: str
    """Name of the worker whose result this is, `pkg:name` for one that ships with the package; or a template's."""
    is_template: bool = False
    reference: str
    """The `output_schema_ref` of that worker or template."""
    value: Any
    """The result, which fits the schema."""


class CheckedOutput(Message):
    """Result of `check_output`: the judgement of a class with validators."""

    problems: tuple[str, ...] = ()
    """Problems of the result; empty if it has none."""
    value: Any = None
    """Result as the class made it, if there are no problems."""


class BuiltInput(ReadResult):
    """Typed input that was checked."""

    prompt: str | None = None
    """Prompt that `input_parts()` made; None if the class does not define it, and the values are the input."""
    values: dict[str, Any]
    """The fields, defaults filled in."""
    attachments: tuple[str, ...] = ()
    """Paths that `input_parts()` attaches, in the caller's files."""


class Notification(Message):
    """Event of a run, as targets are told of it. Fields that do not belong to the event are None."""

    v: int = 1
    id: str
    """Id of the event: the same for every attempt and every target."""
    event: NotifyEvent
    at: datetime
    """Time of the event."""
    run: str
    worker: str
    """Worker that asks; for an event of the run, its entry worker."""
    link: str | None = None
    """The page of the approval or of the run."""
    approval: str | None = None
    """Id of the approval, like `a3`."""
    digest: str | None = None
    """Digest of the question, for a decision to name."""
    path: str | None = None
    tool: str | None = None
    summary: str | None = None
    approvers: tuple[str, ...] | None = None
    """Names of the people who may decide; empty if everybody may."""
    asked_at: datetime | None = None
    deadline: datetime | None = None
    decision: DecisionKind | None = None
    by: str | None = None
    note: str | None = None
    door: str | None = None
    """Way of the decision: `signal`, `update`, `grant` for a grant, or `timer` once time had run out."""
    error: str | None = None
    """Name of the error's class, for a run that failed."""
    items: ItemCounts | None = Field(default=None, exclude_if=is_none)
    """Counts of a batch that has completed."""
    content: dict[str, Any] | None = None
    """Content that only a target with `content: true` is told."""


class NotifyInput(Message):
    """Input of `notify`."""

    target: NotifyTarget
    notification: Notification


class ToolCaller(Message):
    """The invocation that a tool works for, as the tool is told of it."""

    call: str = ""
    """Names the call of the tool to its invocation; empty where no tool is called, only listed or judged."""
    run: str
    path: str
    worker: str
    depth: int
    max_depth: int


class CallForToolInput(Message):
    """Asks an invocation to call a worker for one of its tools."""

    call: str
    """Name of the tool's call, as `ToolCaller.call` has it."""
    worker: str
    input_data: Json
    attachments: tuple[str, ...] | None = None
    """Paths in the invocation's files."""

    @model_validator(mode="after")
    def _fits(self) -> CallForToolInput:
        size = len(self.model_dump_json())
        if size > MAX_CALL_FOR_TOOL_BYTES:
            raise ValueError(
                f"its input has {size} bytes; at most {MAX_CALL_FOR_TOOL_BYTES} fit, so hand over files as attachments"
            )
        return self


class CalledForTool(Message):
    """Result of a call that an invocation made for its tool."""

    output: Json = None
    """The worker's text, or its structured value."""
    usage: Usage = Usage()
    failure: str | None = None
    """Why there is no output, as a model would be told."""


class ListExternalToolsInput(Message):
    """Input of `list_external_tools`."""

    toolsets: tuple[ExternalToolset, ...]
    model: str
    caller: ToolCaller
    """Invocation that they work for."""


class CallExternalToolInput(CallInput):
    """Input of `call_external_tool` and of `external_capabilities`."""

    toolset: ExternalToolset
    tool: str
    """Name of the tool in its toolset."""
    args: dict[str, Any]
    model: str
    caller: ToolCaller
    """Invocation that it works for."""
    limit_seconds: float | None = None
    """Seconds that the call may take, waiting for workers not counted; None for as long as the activity."""


class ExternalResult(Message):
    """Result of `call_external_tool`."""

    value: Json = None


class ExternalCapabilities(Message):
    """Result of `external_capabilities`."""

    capabilities: tuple[str, ...]


Request = TypeVar("Request")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ActivityRef(Generic[Request, Result]):
    """Wire name of an activity with the types of its one argument and of its result."""

    name: str
    request: type[Request]
    result: type[Result]
    runs_authors_code: bool = False
    """Whether it runs Python of a workshop in the process of the service."""


LOAD_RUN = ActivityRef("load_run", LoadRunInput, LoadedRun)
"""Load the entry worker and the settings that a run takes from its workshop."""
LOAD_WORKER = ActivityRef("load_worker", LoadWorkerInput, PinnedWorker)
"""Load a worker that is called, as its file says now."""
LOAD_TEMPLATE = ActivityRef("load_template", LoadTemplateInput, LoadedTemplate)
"""Load a template as a worker, with its parameters filled in."""
BUILD_INPUT = ActivityRef("build_input", BuildInputInput, BuiltInput, runs_authors_code=True)
"""Check typed input against the class of its worker, and let the class build the prompt."""
CHECK_OUTPUT = ActivityRef("check_output", CheckOutputInput, CheckedOutput, runs_authors_code=True)
"""Hold a structured result against the validators of its class."""
DRAFT_WORKER = ActivityRef("draft_worker", DraftWorkerInput, WorkerDraft)
"""Write the text of a worker that a model wants to make, without saving it."""
SAVE_WORKER = ActivityRef("save_worker", SaveWorkerInput, SavedWorker)
"""Save the file of a worker that a model makes."""
READ_FILE = ActivityRef("read_file", ReadFileInput, FileText)
"""Read a part of a text file."""
LIST_FILES = ActivityRef("list_files", ListFilesInput, FileListing)
"""List the files below a folder."""
FIND_FILES = ActivityRef("find_files", FindFilesInput, FoundFiles)
"""Look whether paths name files, how large these are, and what is in them."""
WRITE_FILE = ActivityRef("write_file", WriteFileInput, FileChange)
"""Write a text file, or replace it."""
PREVIEW_WRITE = ActivityRef("preview_write", WriteFileInput, FileChange)
"""Show what a write would change."""
EDIT_FILE = ActivityRef("edit_file", EditFileInput, FileChange)
"""Replace one piece of a text file."""
PREVIEW_EDIT = ActivityRef("preview_edit", EditFileInput, FileChange)
"""Show what an edit would change."""
SNAPSHOT_ATTACHMENTS = ActivityRef("snapshot_attachments", SnapshotInput, SnapshotResult)
"""Copy files into the blob store, to be handed over as attachments."""
READ_INPUTS = ActivityRef("read_inputs", ReadInputsInput, ReadInputs)
"""Read the files that a run was told to read when it begins, and copy them into the blob store."""
RUN_COMMAND = ActivityRef("run_command", ShellInput, ShellResult)
"""Run a command; attempted once, unless it can change nothing but a layer."""
PREVIEW_COMMAND = ActivityRef("preview_command", ShellInput, CommandPreview)
"""Check a command without running it."""
CALL_PYTHON_TOOL = ActivityRef("call_python_tool", CallPythonToolInput, PythonToolResult, runs_authors_code=True)
"""Call a function of `tools.py`; attempted once, unless it is idempotent."""
LIST_EXTERNAL_TOOLS = ActivityRef(
    "list_external_tools", ListExternalToolsInput, ExternalToolListing, runs_authors_code=True
)
"""List the tools of toolsets of packages and of MCP servers."""
EXTERNAL_CAPABILITIES = ActivityRef(
    "external_capabilities", CallExternalToolInput, ExternalCapabilities, runs_authors_code=True
)
"""Ask a toolset which capabilities a call would use."""
CALL_EXTERNAL_TOOL = ActivityRef("call_external_tool", CallExternalToolInput, ExternalResult, runs_authors_code=True)
"""Call a tool of a toolset; attempted once."""
KEEP_CONVERSATION = ActivityRef("keep_conversation", KeepConversationInput, KeptConversation)
"""Move the conversation of an invocation that is continued as new into the blob store."""
JOIN_LAYERS = ActivityRef("join_layers", JoinLayersInput, JoinedLayers)
"""Join the changes of a child with those of its caller."""
NOTIFY = ActivityRef("notify", NotifyInput, type(None))
"""Tell a target outside of an event of a run."""
RECORD_AT_DESK = ActivityRef("record_at_desk", DeskRecord, DeskRecord)
"""Keep news between a run's desk and its entry invocation in the history. Always a local activity; has no effect."""
REQUEST_MODEL: ActivityRef[Any, Any] = ActivityRef("agent__llmdo__model_request", object, object)
"""Ask a model for its next answer. Registered by Pydantic AI for the agent `llmdo`, with types of its own that messages
may not name: messages and parameters of a request, and a ModelResponse."""

FILE_ACTIVITIES: tuple[ActivityRef[Any, Any], ...] = (
    LOAD_RUN,
    LOAD_WORKER,
    LOAD_TEMPLATE,
    BUILD_INPUT,
    CHECK_OUTPUT,
    DRAFT_WORKER,
    SAVE_WORKER,
    READ_FILE,
    LIST_FILES,
    FIND_FILES,
    WRITE_FILE,
    PREVIEW_WRITE,
    EDIT_FILE,
    PREVIEW_EDIT,
    SNAPSHOT_ATTACHMENTS,
    READ_INPUTS,
    RUN_COMMAND,
    PREVIEW_COMMAND,
    CALL_PYTHON_TOOL,
    LIST_EXTERNAL_TOOLS,
    EXTERNAL_CAPABILITIES,
    CALL_EXTERNAL_TOOL,
    JOIN_LAYERS,
)
"""Activities that need the files of the workshop."""
ALL_ACTIVITIES: tuple[ActivityRef[Any, Any], ...] = (
    *FILE_ACTIVITIES,
    KEEP_CONVERSATION,
    NOTIFY,
    RECORD_AT_DESK,
    REQUEST_MODEL,
)
"""Every activity that workflows run."""
