"""Keys about models in worker files and `workshop.yaml`: settings, and tools that run at the provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import ServerSideTool
from llm_do_temporal.policy.models import check_no_secret

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


def unknown_settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the settings that no provider is known to have, each with a known name like it, or None."""
    for name in settings:
        if name not in SETTING_NAMES and not name.startswith(_PROVIDER_PREFIXES):
            close = get_close_matches(name, sorted(SETTING_NAMES), n=1)
            yield name, close[0] if close else None


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
        return ServerSideTool(
            tool_type=self.tool_type, options=self.model_dump(exclude={"tool_type"}, exclude_none=True)
        )
