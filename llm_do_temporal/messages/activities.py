"""References to activities: the wire name of each, and the types of its request and its result.

Workflows run an activity by its reference, the activity's own definition takes its name from there, and the reference
page of the wire is written from it. The activities themselves are in `llm_do_temporal.activities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llm_do_temporal.messages.conversation import KeepConversationInput, KeptConversation
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.messages.delegation import (
    BuildInputInput,
    BuiltInput,
    CheckedOutput,
    CheckOutputInput,
    DraftWorkerInput,
    LoadedTemplate,
    LoadTemplateInput,
    SavedWorker,
    SaveWorkerInput,
    WorkerDraft,
)
from llm_do_temporal.messages.effects import (
    CallPythonToolInput,
    CommandPreview,
    DeskRecord,
    EditFileInput,
    FileChange,
    FileListing,
    FileText,
    FindFilesInput,
    FoundFiles,
    ListFilesInput,
    LoadedRun,
    LoadRunInput,
    LoadWorkerInput,
    PythonToolResult,
    ReadFileInput,
    ReadInputs,
    ReadInputsInput,
    ShellInput,
    ShellResult,
    SnapshotInput,
    SnapshotResult,
    WriteFileInput,
)
from llm_do_temporal.messages.external import (
    CallExternalToolInput,
    ExternalCapabilities,
    ExternalResult,
    ExternalToolListing,
    ListExternalToolsInput,
)
from llm_do_temporal.messages.layers import JoinedLayers, JoinLayersInput
from llm_do_temporal.messages.notifications import NotifyInput

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
"""Run a command; attempted once."""
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
