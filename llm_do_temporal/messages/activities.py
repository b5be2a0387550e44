"""References to activities: the wire name of each, and the types of its request and its result.

Workflows run an activity by its reference, the activity's own definition takes its name from there, and the reference
page of the wire is written from it. A reference says nothing of what an activity does; `llm_do_temporal.activities`
does.
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
from llm_do_temporal.messages.notifications import NotifyInput

Request = TypeVar("Request")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ActivityRef(Generic[Request, Result]):
    """Wire name of an activity with the types of its one argument and of its result."""

    name: str
    request: type[Request]
    result: type[Result]


LOAD_RUN = ActivityRef("load_run", LoadRunInput, LoadedRun)
LOAD_WORKER = ActivityRef("load_worker", LoadWorkerInput, PinnedWorker)
LOAD_TEMPLATE = ActivityRef("load_template", LoadTemplateInput, LoadedTemplate)
BUILD_INPUT = ActivityRef("build_input", BuildInputInput, BuiltInput)
CHECK_OUTPUT = ActivityRef("check_output", CheckOutputInput, CheckedOutput)
DRAFT_WORKER = ActivityRef("draft_worker", DraftWorkerInput, WorkerDraft)
SAVE_WORKER = ActivityRef("save_worker", SaveWorkerInput, SavedWorker)
READ_FILE = ActivityRef("read_file", ReadFileInput, FileText)
LIST_FILES = ActivityRef("list_files", ListFilesInput, FileListing)
FIND_FILES = ActivityRef("find_files", FindFilesInput, FoundFiles)
WRITE_FILE = ActivityRef("write_file", WriteFileInput, FileChange)
PREVIEW_WRITE = ActivityRef("preview_write", WriteFileInput, FileChange)
EDIT_FILE = ActivityRef("edit_file", EditFileInput, FileChange)
PREVIEW_EDIT = ActivityRef("preview_edit", EditFileInput, FileChange)
SNAPSHOT_ATTACHMENTS = ActivityRef("snapshot_attachments", SnapshotInput, SnapshotResult)
RUN_COMMAND = ActivityRef("run_command", ShellInput, ShellResult)
PREVIEW_COMMAND = ActivityRef("preview_command", ShellInput, CommandPreview)
CALL_PYTHON_TOOL = ActivityRef("call_python_tool", CallPythonToolInput, PythonToolResult)
LIST_EXTERNAL_TOOLS = ActivityRef("list_external_tools", ListExternalToolsInput, ExternalToolListing)
EXTERNAL_CAPABILITIES = ActivityRef("external_capabilities", CallExternalToolInput, ExternalCapabilities)
CALL_EXTERNAL_TOOL = ActivityRef("call_external_tool", CallExternalToolInput, ExternalResult)
KEEP_CONVERSATION = ActivityRef("keep_conversation", KeepConversationInput, KeptConversation)
NOTIFY = ActivityRef("notify", NotifyInput, type(None))
REQUEST_MODEL: ActivityRef[Any, Any] = ActivityRef("agent__llmdo__model_request", object, object)
"""Registered by Pydantic AI for the agent `llmdo` with types of its own, which messages may not name: the messages and
parameters of a request, and a ModelResponse."""

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
    RUN_COMMAND,
    PREVIEW_COMMAND,
    CALL_PYTHON_TOOL,
    LIST_EXTERNAL_TOOLS,
    EXTERNAL_CAPABILITIES,
    CALL_EXTERNAL_TOOL,
)
"""Activities that need the files of the workshop."""
ALL_ACTIVITIES: tuple[ActivityRef[Any, Any], ...] = (*FILE_ACTIVITIES, KEEP_CONVERSATION, NOTIFY, REQUEST_MODEL)
"""Every activity that workflows run."""
