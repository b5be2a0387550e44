"""Forms in which a model gets its attachments: the file as it is, or its text.

Judges media types and the kinds of files that the chosen model takes. The text itself is made where the turn is served.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.models.ids import Accepts, Aliases, alias_of, full_name

AttachmentsAs = Literal["native", "text", "auto"]
Form = Literal["native", "text"]

_TEXT_TYPES = frozenset({"application/json", "application/yaml", "application/xml", "application/javascript"})
_FAMILIES = frozenset({"anthropic", "azure", "bedrock", "google", "offline", "openai", "openrouter", "test"})
"""Providers that take PDFs and images as they are; `openai-chat` and `google-cloud` belong to the families."""
EVERYTHING: frozenset[Accepts] = frozenset({"text", "pdf", "image"})
TEXT_ONLY: frozenset[Accepts] = frozenset({"text"})
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TAKEN: dict[str, tuple[str, ...]] = {
    "AnthropicModel": (*_PICTURES, "application/pdf"),
    "BedrockConverseModel": (*_PICTURES, "application/", "video/"),
    "GoogleModel": (
        *(_PICTURES - {"image/gif"}),
        "image/heic",
        "image/heif",
        "application/pdf",
        "audio/",
        "video/",
    ),
    "GroqModel": (*_PICTURES,),
    "HuggingFaceModel": (*_PICTURES,),
    "MistralModel": (*_PICTURES, "application/pdf"),
    "OpenAIChatModel": (*_PICTURES, "application/", "audio/wav", "audio/mpeg"),
    "OpenAIResponsesModel": (*_PICTURES, "application/"),
    "OpenRouterModel": (*_PICTURES, "application/", "audio/wav", "audio/mpeg", "video/"),
}
"""Types of files that the protocol of an adapter has a form for; `audio/` are all that begin so."""


def accepted_files(aliases: Aliases, model: str) -> frozenset[Accepts]:
    """Return the kinds of files that a model takes: as its alias names them, else as known of its provider.

    A server behind an address of its own speaks a provider's protocol and is seldom that provider: text only.
    """
    alias = alias_of(aliases, model)
    if alias is not None and alias.accepts is not None:
        return frozenset(alias.accepts)
    if alias is not None and alias.base_url is not None:
        return TEXT_ONLY
    provider = full_name(aliases, model).partition(":")[0].removeprefix("gateway/")
    return EVERYTHING if provider.split("-")[0] in _FAMILIES else TEXT_ONLY


def kind_of(media_type: str) -> Accepts | None:
    """Return the kind of a file; None for a file that is neither text nor PDF nor image."""
    if media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+xml", "+json")):
        return "text"
    if media_type == "application/pdf":
        return "pdf"
    return "image" if media_type.startswith("image/") else None


_ARCHIVES = frozenset(
    {
        "application/gzip",
        "application/octet-stream",
        "application/x-ole-storage",
        "application/x-tar",
        "application/zip",
    }
)
"""Types that no provider reads."""


def is_taken(adapters: Sequence[str], media_type: str) -> bool:
    """Return whether the protocol of an adapter takes files of a type as they are.

    `adapters` are the names of its class and of those it is derived from. An unknown one takes everything.
    """
    taken = next((_TAKEN[one] for one in adapters if one in _TAKEN), None)
    if taken is None:
        return True
    return media_type not in _ARCHIVES and any(
        media_type == one or (one.endswith("/") and media_type.startswith(one)) for one in taken
    )


def attachment_forms(
    attachments: Sequence[Attachment], wanted: AttachmentsAs, accepts: Collection[Accepts], *, model: str
) -> tuple[Form, ...]:
    """Return the form of each attachment for `model`. Raises AttachmentRefusal for a file without a form for it."""
    return tuple(_form(attachment, wanted, accepts, model) for attachment in attachments)


def _form(attachment: Attachment, wanted: AttachmentsAs, accepts: Collection[Accepts], model: str) -> Form:
    kind = kind_of(attachment.media_type)
    if kind == "text":
        # Providers have no form of their own for text: it is a part of the prompt either way.
        return "text"
    if wanted == "native":
        return "native"
    if kind == "image":
        if wanted == "text":
            raise AttachmentRefusal(
                f"'{attachment.path}' is an image and has no text, and attachments are given as text",
                next_step="Leave it out, or set `attachments_as: auto`.",
            )
        if "image" not in accepts:
            raise AttachmentRefusal(
                f"'{attachment.path}' is an image, and model '{model}' takes none",
                next_step="Choose a model that sees, or say `accepts: [text, image]` for it under `models:`.",
            )
        return "native"
    if wanted == "text":
        return "text"
    # Of files other than PDFs nothing is known: who takes documents is left to say what it does with them.
    return "native" if "pdf" in accepts else "text"
