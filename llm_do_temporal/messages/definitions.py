"""Definitions as they are pinned when a run or a delegation loads them."""

from __future__ import annotations

from typing import Any, Literal

from llm_do_temporal.messages.base import Message
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.attachments import AttachmentPolicy
from llm_do_temporal.policy.delegation import DEFAULT_MAX_DEPTH
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.policy.sandbox import WorkerSandbox


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
