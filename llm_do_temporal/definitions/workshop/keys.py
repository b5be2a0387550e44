"""Keys of `workshop.yaml`, as people write them."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from llm_do_temporal.definitions.keys.base import Text
from llm_do_temporal.definitions.keys.models import ModelSettings
from llm_do_temporal.definitions.keys.toolsets import Toolsets
from llm_do_temporal.definitions.workshop.blob_settings import BlobSettings
from llm_do_temporal.definitions.workshop.slack_settings import SlackSettings
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import ReviewMode, Turns
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.delegation import DEFAULT_MAX_DEPTH
from llm_do_temporal.policy.files.attachments import AttachmentPolicy, AttachmentsAs
from llm_do_temporal.policy.files.sandbox import WorkerSandbox, WorkshopSandbox
from llm_do_temporal.policy.models import ModelAlias, ModelNames
from llm_do_temporal.policy.notifications import MAX_TARGETS, NotifyTarget, check_ui_url
from llm_do_temporal.policy.queues import ProviderKeys, ProviderName
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.policy.shell import ShellSettings

MAX_VIEWS = 20
"""Most views of the list of runs: each is a tab."""
ViewName = Annotated[str, StringConstraints(min_length=1, max_length=40)]


class CreationDefaults(Strict):
    """`creation_defaults:` of `workshop.yaml`: keys of every worker made by `worker_create`. None by default."""

    model: ModelNames | None = None
    """Model of new workers that name none."""
    sandbox: WorkerSandbox | None = None
    """Files of new workers."""
    attachment_policy: AttachmentPolicy | None = None
    """Files that new workers accept."""
    toolsets: Toolsets | None = None
    """Tools of new workers; without it they have none."""


class WorkshopConfig(Strict):
    """`workshop.yaml`."""

    name: str = ""
    description: str = ""
    model: ModelNames | None = None
    models: dict[str, ModelAlias] = Field(default_factory=dict)
    """Aliases of models."""
    model_settings: ModelSettings = Field(default_factory=dict)
    model_resolution: Literal["inherited", "isolated"] = "inherited"
    providers: dict[ProviderName, ProviderKeys] = Field(default_factory=dict)
    """Providers whose requests have a task queue of their own."""
    separate_files: bool = False
    """Whether files, commands and Python tools have a task queue of their own."""
    attachments_as: AttachmentsAs = "auto"
    max_context_tokens: int | None = Field(default=None, ge=1)
    toolset_aliases: dict[str, Text] = Field(default_factory=dict)
    """Short names of toolset classes."""
    sandbox: WorkshopSandbox | None = None
    blobs: BlobSettings | None = None
    shell: ShellSettings = ShellSettings()
    creation_defaults: CreationDefaults = CreationDefaults()
    approvals: ApprovalRules = ApprovalRules()
    limits: Limits = Limits()
    max_depth: int = Field(default=DEFAULT_MAX_DEPTH, ge=0)
    on_refusal: Literal["tell_model", "abort"] = "tell_model"
    review: ReviewMode | None = None
    """Whether runs work on a layer, whose changes a person reviews together."""
    check_command: str = ""
    """Command that is run on changes before their review."""
    live_text: bool = True
    """Whether answers can be watched while they are written, for which models are asked to stream them."""
    turns: Turns | None = None
    """Whether models are asked at once, or through the batch APIs of their providers."""
    notify: tuple[NotifyTarget, ...] = Field(default=(), max_length=MAX_TARGETS)
    slack: SlackSettings = SlackSettings()
    views: dict[ViewName, RunFilter] = Field(default_factory=dict, max_length=MAX_VIEWS)
    """Filters of the list of runs, by the names that people know them by."""
    ui_url: Annotated[str, AfterValidator(check_ui_url)] | None = None
    """Address at which people reach the approvals page."""

    @field_validator("providers")
    @classmethod
    def _ask_somebody(cls, providers: dict[str, ProviderKeys], info: ValidationInfo) -> dict[str, ProviderKeys]:
        aliases = cast("dict[str, ModelAlias]", info.data.get("models", {}))
        for name in providers:
            if name in aliases and aliases[name].is_plain:
                raise ValueError(f"the alias '{name}' is short for '{aliases[name].model}'; name the provider instead")
        return providers
