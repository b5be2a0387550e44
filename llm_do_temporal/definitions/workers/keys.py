"""Keys of worker files, as people write them."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from llm_do_temporal.definitions.keys.base import Text
from llm_do_temporal.definitions.keys.models import ModelSettings, ServerSideToolKeys
from llm_do_temporal.definitions.keys.toolsets import Toolsets
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import ReviewMode, Turns
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.files.attachments import AttachmentPaths, AttachmentPolicy, AttachmentsAs
from llm_do_temporal.policy.files.sandbox import WorkerSandbox
from llm_do_temporal.policy.models import ModelNames


class WorkerFile(Strict):
    """A worker file's front matter."""

    name: str | None = None
    description: str = ""
    instructions: str | None = None
    model: ModelNames | None = None
    compatible_models: tuple[Text, ...] | None = None
    output_schema: dict[str, Any] | None = None
    output_schema_ref: Text | None = None
    schema_in_ref: Text | None = None
    sandbox: WorkerSandbox | None = None
    attachment_policy: AttachmentPolicy = AttachmentPolicy()
    attachments: AttachmentPaths = AttachmentPaths()
    model_settings: ModelSettings = Field(default_factory=dict)
    attachments_as: AttachmentsAs | None = None
    max_context_tokens: int | None = Field(default=None, ge=1)
    server_side_tools: tuple[ServerSideToolKeys, ...] = ()
    toolsets: Toolsets = Toolsets()
    limits: Limits = Limits()
    review: ReviewMode | None = None
    turns: Turns | None = None
    locked: bool = False
    export: bool = False

    @field_validator("compatible_models")
    @classmethod
    def _not_empty(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if patterns is not None and not patterns:
            raise ValueError("an empty list allows no model; leave it out to allow every one")
        return patterns
