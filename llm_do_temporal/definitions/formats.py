"""The keys of worker files and of `workshop.yaml`, as people write them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, field_validator

from llm_do_temporal.messages import Strict
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.attachments import AttachmentPolicy
from llm_do_temporal.policy.delegation import DEFAULT_MAX_DEPTH
from llm_do_temporal.policy.sandbox import WorkerSandbox, WorkshopSandbox

Text = Annotated[str, StringConstraints(min_length=1)]


class FilesystemOptions(Strict):
    """`filesystem:` of a worker's toolsets."""


class DelegateOptions(Strict):
    """A worker's name below `delegation:`."""


class DelegationOptions(Strict):
    """`delegation:` of a worker's toolsets; every key but `allow_workers` is the name of a worker."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, DelegateOptions | None] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    allow_workers: tuple[str, ...] | None = None

    @property
    def delegates(self) -> tuple[str, ...]:
        """The workers that get a tool of their own, in the order of the file."""
        return tuple(self.__pydantic_extra__)


class Toolsets(Strict):
    """`toolsets:` of a worker; a key with nothing after it switches the toolset on."""

    filesystem: FilesystemOptions | None = None
    delegation: DelegationOptions | None = None

    @property
    def has_filesystem(self) -> bool:
        """Whether the worker has the file tools."""
        return "filesystem" in self.model_fields_set

    @property
    def delegation_options(self) -> DelegationOptions | None:
        """Whom the worker may call; None where it has no delegation."""
        if "delegation" not in self.model_fields_set:
            return None
        return self.delegation or DelegationOptions()


class WorkerFile(Strict):
    """A worker file's front matter."""

    name: str | None = None
    description: str = ""
    instructions: str | None = None
    model: Text | None = None
    compatible_models: tuple[Text, ...] | None = None
    output_schema: dict[str, Any] | None = None
    output_schema_ref: Text | None = None
    sandbox: WorkerSandbox | None = None
    attachment_policy: AttachmentPolicy = AttachmentPolicy()
    toolsets: Toolsets = Toolsets()
    locked: bool = False

    @field_validator("compatible_models")
    @classmethod
    def _not_empty(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if patterns is not None and not patterns:
            raise ValueError("an empty list allows no model; leave it out to allow every one")
        return patterns


class WorkshopConfig(Strict):
    """`workshop.yaml`."""

    name: str = ""
    description: str = ""
    model: Text | None = None
    models: dict[str, Text] = Field(default_factory=dict)
    """Aliases, to `provider:name`."""
    sandbox: WorkshopSandbox | None = None
    approvals: ApprovalRules = ApprovalRules()
    max_depth: int = Field(default=DEFAULT_MAX_DEPTH, ge=0)
    on_refusal: Literal["tell_model", "abort"] = "tell_model"
