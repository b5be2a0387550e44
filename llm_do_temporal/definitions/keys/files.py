"""Keys of worker files and of `workshop.yaml`, as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from llm_do_temporal.definitions.keys.toolsets import Text, Toolsets
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import ReviewMode, ServerSideTool, Turns, WorkerKeys
from llm_do_temporal.policy.approvals import ApprovalRules, Person
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.delegation import DEFAULT_MAX_DEPTH
from llm_do_temporal.policy.files.attachments import AttachmentPaths, AttachmentPolicy, AttachmentsAs
from llm_do_temporal.policy.files.sandbox import WorkerSandbox, WorkshopSandbox
from llm_do_temporal.policy.models import ModelAlias, ModelNames, check_no_secret
from llm_do_temporal.policy.notifications import MAX_TARGETS, NotifyTarget, check_ui_url
from llm_do_temporal.policy.queues import ProviderKeys, ProviderName
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.policy.shell import ShellSettings

SETTING_NAMES = frozenset(
    {
        "cache",
        "citations",
        "extra_body",
        "extra_headers",
        "first_event_timeout",
        "framing_announcement",
        "frequency_penalty",
        "logit_bias",
        "max_retries",
        "max_tokens",
        "parallel_tool_calls",
        "presence_penalty",
        "request_timeout",
        "seed",
        "service_tier",
        "stop_sequences",
        "temperature",
        "thinking",
        "timeout",
        "tool_choice",
        "top_k",
        "top_p",
    }
)
"""The settings Pydantic AI knows for every provider; a test holds them against the installed version."""
_NUMBERS = frozenset(
    {"frequency_penalty", "max_tokens", "presence_penalty", "seed", "temperature", "timeout", "top_k", "top_p"}
)
"""Settings that are numbers for every provider. YAML reads `1e999` as a text."""
_PROVIDER_PREFIXES = ("openai_", "anthropic_", "google_", "bedrock_", "groq_", "mistral_", "xai_", "openrouter_")
_OPTIONS: Mapping[str, frozenset[str]] = {
    "web_search": frozenset({"max_uses", "allowed_domains", "blocked_domains", "search_context_size", "user_location"}),
    "web_fetch": frozenset({"max_uses", "allowed_domains", "blocked_domains"}),
    "code_execution": frozenset(),
    "image_generation": frozenset({"size", "aspect_ratio", "output_format", "output_compression"}),
}
_FOR_ALL = frozenset({"tool_type", "provider_settings"})


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    check_no_secret(settings)
    for name in sorted(_NUMBERS & settings.keys()):
        value = settings[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"'{name}' is a number, and {value!r} is none")
    return settings


ModelSettings = Annotated[dict[str, Any], AfterValidator(_checked)]
"""Settings of a model, by the names Pydantic AI has for them."""


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that no provider is known to have."""
    return [name for name in settings if name not in SETTING_NAMES and not name.startswith(_PROVIDER_PREFIXES)]


class ServerSideToolKeys(Strict):
    """Entry of `server_side_tools:`; text alone is short for `{tool_type: text}`."""

    tool_type: Literal["web_search", "web_fetch", "code_execution", "image_generation"]
    """Tool that the provider runs."""
    max_uses: int | None = Field(default=None, ge=1)
    """Most uses in a turn."""
    allowed_domains: list[str] | None = None
    """Domains that alone are looked at; not together with `blocked_domains`."""
    blocked_domains: list[str] | None = None
    """Domains that are never looked at."""
    search_context_size: Literal["low", "medium", "high"] | None = None
    """Share of what is found that the model is told."""
    user_location: dict[str, str] | None = None
    """Place for which results are found: `city`, `region`, `country`, `timezone`."""
    size: str | None = None
    """Size of the image, as the provider names it."""
    aspect_ratio: str | None = None
    """Proportions of the image, like `16:9`."""
    output_format: Literal["png", "webp", "jpeg"] | None = None
    """Format of the image."""
    output_compression: int | None = Field(default=None, ge=0, le=100)
    """Compression of the image, in percent."""
    provider_settings: dict[str, Any] | None = None
    """Options that a single provider has, by the provider's name."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"tool_type": value} if isinstance(value, str) else value

    @field_validator("provider_settings")
    @classmethod
    def _no_keys(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        check_no_secret(value)
        return value

    @model_validator(mode="after")
    def _own_options(self) -> ServerSideToolKeys:
        allowed = _OPTIONS[self.tool_type]
        wrong = sorted(self.model_fields_set - _FOR_ALL - allowed)
        if wrong:
            options = ", ".join(sorted({*allowed, "provider_settings"}))
            raise ValueError(f"'{self.tool_type}' has no option '{wrong[0]}'; it has {options}")
        if self.allowed_domains and self.blocked_domains:
            raise ValueError("'allowed_domains' and 'blocked_domains' exclude each other; keep one of them")
        return self

    def pinned(self) -> ServerSideTool:
        """Return the tool as the history keeps it."""
        options = self.model_dump(exclude={"tool_type"}, exclude_none=True)
        return ServerSideTool(tool_type=self.tool_type, options=options)


class WorkerFile(Strict, WorkerKeys):
    """A worker file's front matter."""

    name: str | None = None
    instructions: str | None = None
    compatible_models: tuple[Text, ...] | None = None
    output_schema_ref: Text | None = None
    schema_in_ref: Text | None = None
    attachments: AttachmentPaths = AttachmentPaths()
    model_settings: ModelSettings = Field(default_factory=dict)
    server_side_tools: tuple[ServerSideToolKeys, ...] = ()
    toolsets: Toolsets = Toolsets()
    export: bool = False

    @field_validator("compatible_models")
    @classmethod
    def _not_empty(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if patterns is not None and not patterns:
            raise ValueError("an empty list allows no model; leave it out to allow every one")
        return patterns


ENDPOINT_KEYS = {"s3": "endpoint", "az": "endpoint", "abfs": "endpoint", "abfss": "endpoint", "gs": "base_url"}
_SCHEMES = (*ENDPOINT_KEYS, "file")
_CREDENTIALS = "credentials are taken from the provider's own variables, such as AWS_ACCESS_KEY_ID"


class BlobSettings(Strict):
    """`blobs:` of `workshop.yaml`."""

    url: str
    """`s3://BUCKET/PREFIX`, `gs://…`, `az://CONTAINER/…`, `abfss://…`, or `file:///FOLDER`."""
    endpoint: str | None = None
    """Address of a store that speaks the provider's protocol."""
    region: str | None = None
    """Region of S3."""

    @field_validator("url")
    @classmethod
    def _is_place(cls, url: str) -> str:
        parts = _split(url)
        if parts.scheme not in _SCHEMES:
            raise ValueError(
                f"'{url}' names no store that is known; it begins with one of: {'://, '.join(_SCHEMES)}://"
            )
        if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
            raise ValueError(f"'{url}' is not like file:///FOLDER")
        if parts.scheme != "file" and not parts.hostname:
            raise ValueError(f"'{url}' names no bucket; it is like {parts.scheme}://BUCKET/PREFIX")
        return url

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and (_split(endpoint).scheme not in ("http", "https") or not _split(endpoint).hostname):
            raise ValueError(f"'{endpoint}' is not like https://HOST:PORT")
        return endpoint

    @model_validator(mode="after")
    def _fits(self) -> BlobSettings:
        if self.endpoint is not None and self.scheme == "file":
            raise ValueError("a folder has no endpoint; take it out")
        if self.region is not None and self.scheme != "s3":
            raise ValueError("only s3:// has a region; take it out")
        return self

    @property
    def scheme(self) -> str:
        """Scheme of the address, which tells the kind of store."""
        return urlsplit(self.url).scheme


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    # In an address of Azure's own kind the container stands before the '@'.
    if parts.password is not None or (parts.username is not None and parts.scheme not in ("abfs", "abfss")):
        raise ValueError(f"an address holds no credentials; {_CREDENTIALS}")
    if parts.query or parts.fragment:
        raise ValueError("'?' and '#' have no meaning in the address of a blob store; leave them out")
    return parts


def check_channel(channel: str) -> str:
    """Return the id of a channel. Raises ValueError for what is none."""
    if not re.fullmatch(r"[CG][A-Z0-9]{5,29}", channel):
        raise ValueError("it is the id of a channel, like C0123ABCD: at the end of the channel's details in Slack")
    return channel


def _check_user(user: str) -> str:
    if not re.fullmatch(r"[UW][A-Z0-9]{5,29}", user):
        raise ValueError("it is the id of a user, like U0123ABCD: *Copy member ID* in the user's profile in Slack")
    return user


class SlackSettings(Strict):
    """`slack:` of `workshop.yaml`."""

    channel: Annotated[str, AfterValidator(check_channel)] | None = None
    """Id of the channel in which questions are asked."""
    people: dict[Annotated[str, AfterValidator(_check_user)], Person] = Field(default_factory=dict)
    """Names of people by the ids of their users in Slack; nobody else decides there."""


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
