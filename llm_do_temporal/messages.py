"""Everything that crosses Temporal: inputs, results, signals, updates, queries and their names.

This is a wire format. A field may be added with a default; changing or removing one, or a name below,
breaks runs that are open and histories that are kept, and needs `workflow.patched` or a migration.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from llm_do_temporal.policy.approvals import ApprovalRules, CapabilityUse, Mode
from llm_do_temporal.policy.attachments import Attachment, AttachmentPolicy
from llm_do_temporal.policy.delegation import DEFAULT_MAX_DEPTH
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.policy.sandbox import Mount, Tree, WorkerSandbox

RUN_WORKFLOW = "LlmDoRun"
WORKER_WORKFLOW = "LlmDoWorker"
AGENT_NAME = "llmdo"
MODEL_ACTIVITY = f"agent__{AGENT_NAME}__model_request"
TASK_QUEUE = "llm-do"

DECIDE_SIGNAL = "decide"
DECIDE_UPDATE = "decide_now"
REQUEST_APPROVAL_SIGNAL = "request_approval"
WITHDRAW_APPROVALS_SIGNAL = "withdraw_approvals"
DELIVER_DECISION_SIGNAL = "deliver_decision"
DESK_QUERY = "desk"

STATE_ATTRIBUTE = "LlmDoState"
PENDING_ATTRIBUTE = "LlmDoPendingApprovals"
WORKER_ATTRIBUTE = "LlmDoWorker"
PENDING_MEMO = "llm_do_pending"
RUN_MEMO = "llm_do_run"
INVOCATION_MEMO = "llm_do_invocation"

Json = Any
"""Any JSON value."""


class Message(BaseModel):
    """Base of everything on the wire: frozen, and tolerant of fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Strict(BaseModel):
    """Base of what people write by hand: an unknown field is a mistake and is named."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- definitions, pinned ---------------------------------------------------------------------------


class DelegateTool(Message):
    """A worker offered to another one as a tool of its own name."""

    name: str
    description: str
    takes_attachments: bool = False


class DelegationToolset(Message):
    """Whom a worker may call, and through which tools."""

    allow_workers: tuple[str, ...] | None = None
    """Names for the generic `worker_call`; `*` is everybody, empty is nobody; None: the tool is not offered."""
    tools: tuple[DelegateTool, ...] = ()


class PinnedWorker(Message):
    """A worker as it was when it was loaded. From here on the history is the only source."""

    name: str
    source: str
    """Where it came from: a path relative to the workshop, or `pkg:name`."""
    sha256: str
    """Digest of the file's text."""
    description: str = ""
    instructions: str
    model: str | None = None
    compatible_models: tuple[str, ...] | None = None
    output_schema: dict[str, Any] | None = None
    sandbox: WorkerSandbox | None = None
    attachment_policy: AttachmentPolicy = AttachmentPolicy()
    filesystem: bool = False
    """Whether the worker has the file tools."""
    delegation: DelegationToolset | None = None
    locked: bool = False
    warnings: tuple[str, ...] = ()


class RunSettings(Message):
    """What a run takes from its workshop and its start, pinned when it starts and handed down the tree."""

    mode: Mode
    rules: ApprovalRules
    models: ModelSources
    max_depth: int = DEFAULT_MAX_DEPTH
    on_refusal: Literal["tell_model", "abort"] = "tell_model"
    workshop_has_sandbox: bool = False
    inherit_models: bool = True
    search_attributes: bool = True
    """Whether the namespace knows our search attributes; setting an unknown one would wedge the workflow."""


# --- starting and finishing ------------------------------------------------------------------------


class StartRunInput(Strict):
    """Input of `LlmDoRun`. `{"worker": "greeter", "prompt": "hi"}` is enough."""

    worker: str
    prompt: str = ""
    input: Json = None
    attachments: tuple[Attachment, ...] = ()
    model: str | None = None
    force_model: str | None = None
    environment_model: str | None = None
    mode: Mode | None = None
    started_by: str = ""


class Usage(Message):
    """What was spent; adds up over a tree."""

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class RunResult(Message):
    """Result of `LlmDoRun`."""

    output: Json
    """The worker's text, or its structured value."""
    usage: Usage


class InvokeWorkerInput(Message):
    """Input of `LlmDoWorker`."""

    run: str
    """Workflow id of the run, where the desk is."""
    path: str
    """Position in the tree, like `main/evaluator-2`."""
    depth: int
    worker: PinnedWorker
    settings: RunSettings
    tree: Tree
    """The invocation's own tree, already narrowed."""
    model: str
    """The effective model as `provider:name`."""
    prompt: str = ""
    input: Json = None
    attachments: tuple[Attachment, ...] = ()


class InvocationResult(Message):
    """Result of `LlmDoWorker`; `usage` includes that of everything it delegated."""

    output: Json
    usage: Usage


class InvocationMemo(Message):
    """Memo of `LlmDoWorker`: what a list of workflows shows without opening a history."""

    path: str
    worker: str
    depth: int
    model: str


class RunMemo(Message):
    """Memo of `LlmDoRun`."""

    worker: str
    started_by: str = ""


# --- approvals -------------------------------------------------------------------------------------


class DecisionKind(StrEnum):
    """What a person can answer."""

    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"


class Remember(StrEnum):
    """How long a decision holds for identical calls."""

    NONE = "none"
    SESSION = "session"


class Decision(Strict):
    """Payload of the signal `decide` and of the update `decide_now`."""

    id: str | None = None
    """Which approval, like `a3`; may be left out while exactly one is pending."""
    decision: DecisionKind
    args: dict[str, Any] | None = None
    """The new arguments, for `modify`."""
    note: str = ""
    """For `reject`, the reason that the model is told."""
    remember: Remember = Remember.NONE
    by: str = ""
    """Who decides."""


class RequestApprovalInput(Message):
    """Signal `request_approval`, from an invocation to the desk."""

    invocation: str
    """Workflow id of the invocation that asks."""
    key: str
    """Names the question within the invocation."""
    worker: str
    path: str
    tool: str
    args: dict[str, Any]
    args_schema: dict[str, Any] | None = None
    """JSON Schema that changed arguments must meet; None: the arguments cannot be changed."""
    tree: Tree = Tree()
    """The asking invocation's files, so that changed paths can be judged at once."""
    capabilities: tuple[CapabilityUse, ...]
    summary: str
    """One line of what the call is about."""
    diff: str | None = None
    """For writes: what would change, as a unified diff."""
    reason: str = ""


class WithdrawApprovalsInput(Message):
    """Signal `withdraw_approvals`: an invocation no longer waits for these answers."""

    invocation: str
    keys: tuple[str, ...]


class Verdict(Message):
    """A decision as it was taken, for the audit trail."""

    decision: DecisionKind
    args: dict[str, Any]
    """The arguments after the decision."""
    note: str = ""
    by: str = ""
    at: datetime
    door: Literal["signal", "update", "grant"]
    remember: Remember = Remember.NONE


class DeliverDecisionInput(Message):
    """Signal `deliver_decision`, from the desk to the invocation that asked."""

    key: str
    id: str
    verdict: Verdict


class Approval(Message):
    """One question at the desk, decided or not."""

    id: str
    asked_at: datetime
    request: RequestApprovalInput
    verdict: Verdict | None = None
    withdrawn: bool = False


class Grant(Message):
    """A remembered decision: identical calls, of anybody in the run, get the same answer."""

    tool: str
    canonical_args: str
    approval: str
    """Id of the approval it came from."""
    verdict: Verdict


class IgnoredDecision(Message):
    """A signal `decide` that could not be carried out; kept, so that nobody wonders where it went."""

    at: datetime
    reason: str


class DeskState(Message):
    """All a desk knows; answers the query `desk` and is what a continued run starts from."""

    approvals: tuple[Approval, ...] = ()
    grants: tuple[Grant, ...] = ()
    ignored: tuple[IgnoredDecision, ...] = ()


class PendingApprovalMemo(Message):
    """One entry of the memo `llm_do_pending`, readable while no worker service runs."""

    id: str
    invocation: str
    key: str
    worker: str
    path: str
    tool: str
    summary: str
    asked_at: datetime


# --- activities ------------------------------------------------------------------------------------


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
