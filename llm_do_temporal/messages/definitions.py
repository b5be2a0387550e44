"""Definitions as they are pinned when a run or a delegation loads them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from llm_do_temporal.messages.base import Message, is_empty, is_false, is_none
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Ruling
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.delegation import DEFAULT_MAX_DEPTH, TemplateRules
from llm_do_temporal.policy.external import PYTHON_CAPABILITIES as DEFAULT_CAPABILITIES
from llm_do_temporal.policy.external import ToolPolicy
from llm_do_temporal.policy.files.attachments import AttachmentPaths, AttachmentPolicy, AttachmentsAs
from llm_do_temporal.policy.files.sandbox import WorkerSandbox
from llm_do_temporal.policy.models import ModelNames, ModelSources
from llm_do_temporal.policy.queues import Queues
from llm_do_temporal.policy.shell import ShellPolicy, ShellSettings

ReviewMode = Literal["changes"]
"""Form of a review: `changes` are made in a layer, and reviewed together."""
Turns = Literal["now", "batch"]
"""Way in which a model is asked: `now`, or through its provider's `batch` API, for less money and within a day."""


class DelegateTool(Message):
    """A worker offered to another one as a tool of its own name."""

    name: str
    description: str
    takes_attachments: bool = False
    input_schema: dict[str, Any] | None = None
    """JSON Schema of the callee's `schema_in_ref`: its fields are the tool's parameters."""


class DelegationToolset(Message):
    """Workers that a worker may call, and the tools it calls them through."""

    allow_workers: tuple[str, ...] | None = None
    """Names for the generic `worker_call`; `*` is everybody, empty is nobody; None: the tool is not offered."""
    tools: tuple[DelegateTool, ...] = ()
    create: bool = False
    """Whether `worker_create` is offered."""
    templates: TemplateRules | None = None
    """Which templates `llm_worker_call` may use; None: the tool is not offered."""


class PythonTool(Message):
    """A function of the author's `tools.py`, offered as a tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of its arguments."""
    kind: Literal["plain", "context"] = "plain"
    """`plain` runs as an activity, `context` in workflow code."""
    idempotent: bool = False
    """Whether one call may be attempted more than once."""
    source: str
    """File of the function: a path relative to the workshop, or `pkg:path` for a file that ships with the package."""
    sha256: str
    """Digest of that file."""
    ruling: Ruling | None = None
    capabilities: tuple[str, ...] = DEFAULT_CAPABILITIES


class PythonToolset(Message):
    """The Python tools of a worker."""

    tools: tuple[PythonTool, ...] = ()
    sources: dict[str, str] = Field(default_factory=dict)
    """The text of the files whose functions run in workflow code, by the digest of the file."""


class ServerSideTool(Message):
    """A tool that the model's provider runs itself."""

    tool_type: str
    options: dict[str, Any] = Field(default_factory=dict)


class CalledTemplate(Message):
    """Which template an invocation was made from, and with what."""

    name: str
    """Path of the template below the workshop, or `pkg:name`."""
    sha256: str
    """Digest of its text, before anything was filled in."""
    params: dict[str, str] | None = None
    """Values that were filled in, by name: those of the call, and the template's own for the rest. None in a memo."""
    input: str | None = None
    """Text that it was told besides. None in a memo."""


class WorkerKeys(BaseModel):
    """Keys of a worker file that mean the same once the worker is pinned."""

    description: str = ""
    model: ModelNames | None = None
    compatible_models: tuple[str, ...] | None = None
    output_schema: dict[str, Any] | None = None
    sandbox: WorkerSandbox | None = None
    attachment_policy: AttachmentPolicy = AttachmentPolicy()
    model_settings: dict[str, Any] = Field(default_factory=dict)
    attachments_as: AttachmentsAs | None = None
    max_context_tokens: int | None = Field(default=None, ge=1)
    """Largest conversation that its model is told, about, in tokens; None for the workshop's number."""
    limits: Limits = Limits()
    """Limits of each invocation of the worker, with everything below it."""
    review: ReviewMode | None = Field(default=None, exclude_if=is_none)
    """Review of what the worker does; None: as its caller, or the workshop, says."""
    turns: Turns | None = Field(default=None, exclude_if=is_none)
    """Way in which its model is asked; None: as the workshop says."""
    locked: bool = False


class PinnedWorker(Message, WorkerKeys):
    """A worker as it was when it was loaded. From here on the history is the only source."""

    name: str
    source: str
    """Origin of the worker: a path relative to the workshop, or `pkg:name`."""
    sha256: str
    """Digest of the file's text."""
    instructions: str
    output_ref: str | None = Field(default=None, exclude_if=is_none)
    """`output_schema_ref` of the file, where that class has validators: results are held against it, too."""
    input_ref: str | None = None
    """`schema_in_ref` of the file: the class that input must fit, and that may build the prompt."""
    input_schema: dict[str, Any] | None = None
    attachment_paths: AttachmentPaths = AttachmentPaths()
    """Other spellings of paths that this worker gives as attachments."""
    filesystem: bool = False
    """Whether the worker has the file tools."""
    shell: ShellPolicy | None = None
    """Which commands the worker may run; None: it has no `shell`."""
    delegation: DelegationToolset | None = None
    python: PythonToolset | None = None
    external: tuple[ExternalToolset, ...] = ()
    """Toolsets that are classes of Python packages, and MCP servers."""
    server_side_tools: tuple[ServerSideTool, ...] = ()
    warnings: tuple[str, ...] = ()
    unloaded: bool = False
    """Whether Python that it names was not run yet: then its schemas, Python tools and those of its delegates lack."""


class RunSettings(Message):
    """Settings that a run takes from its workshop and its start, pinned when it starts and handed down the tree."""

    mode: Mode
    rules: ApprovalRules
    models: ModelSources
    max_depth: int = DEFAULT_MAX_DEPTH
    on_refusal: Literal["tell_model", "abort"] = "tell_model"
    workshop_has_sandbox: bool = False
    shell: ShellSettings = ShellSettings()
    """Settings of the workshop for running commands."""
    model_settings: dict[str, Any] = Field(default_factory=dict)
    """The workshop's; those of a worker win key by key."""
    attachments_as: AttachmentsAs = "auto"
    """Form in which models get attachments, if their worker names none."""
    max_context_tokens: int | None = None
    """Largest conversation that models are told, about, in tokens, if their worker names none; None for all of it."""
    limits: Limits = Limits()
    """Limits of the whole run."""
    live_text: bool = True
    """Whether answers can be watched while they are written."""
    queues: Queues = Queues()
    """Providers and files with task queues of their own at the worker service that loaded the run."""
    search_attributes: bool = True
    """Whether the namespace knows our search attributes; setting an unknown one would wedge the workflow."""
    review: ReviewMode | None = Field(default=None, exclude_if=is_none)
    """Review of what the whole run does; None: of none but the workers that say so themselves."""
    check_command: str = Field(default="", exclude_if=is_empty)
    """Command that is run on changes before a person reviews them, and before they are made; empty: none."""
    turns: Turns | None = Field(default=None, exclude_if=is_none)
    """Way in which models are asked, if their worker names none; None: at once."""
    review_branch: str = Field(default="", exclude_if=is_empty)
    """Git branch that takes accepted changes; empty: the workshop's files do."""
    aside: bool = Field(default=False, exclude_if=is_false)
    """Whether all changes of files stay in a layer that nothing commits."""
    extensions: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """Versions of the extensions that may have a part in its invocations, by their names."""
    scripted: bool = Field(default=False, exclude_if=is_false)
    """Whether questions that no answer of a script fits are rejected."""


class McpServer(Message):
    """Access to an MCP server: a program to start, or an address. Secrets are names of variables."""

    command: tuple[str, ...] | None = None
    url: str | None = None
    env: tuple[str, ...] = ()
    headers_env: dict[str, str] = Field(default_factory=dict)


class ExternalToolset(Message):
    """A toolset of a worker that is a class of a Python package, or an MCP server."""

    name: str
    """Name of the toolset in the worker's file; `mcp.NAME` for a server."""
    reference: str | None = None
    """Class path; None for a server."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments that the class is constructed with."""
    server: McpServer | None = None
    required: bool = Field(default=False, exclude_if=is_false)
    """Whether the invocation fails where it cannot be used."""
    prefix: str | None = None
    policy: ToolPolicy = ToolPolicy()
    tools: dict[str, ToolPolicy] = Field(default_factory=dict)


class ExternalTool(Message):
    """A tool as its toolset describes it."""

    name: str
    """Name of the tool in its toolset, without prefix."""
    description: str = ""
    parameters: dict[str, Any]
    """JSON Schema of its arguments."""
    asks: bool = False
    """Whether the toolset itself wants it approved."""


class ExternalTools(Message):
    """The tools of one toolset."""

    toolset: str
    tools: tuple[ExternalTool, ...] = ()
    judges_calls: bool = False
    """Whether the toolset says for each call what capabilities it uses."""
    warnings: tuple[str, ...] = ()
    unusable: bool = Field(default=False, exclude_if=is_false)
    """Whether the toolset as a whole could not be used."""


class ExternalToolListing(Message):
    """Result of `list_external_tools`, in the order asked. A toolset that could not be used has no tools."""

    toolsets: tuple[ExternalTools, ...] = ()
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.identity`. Empty: it has none."""
