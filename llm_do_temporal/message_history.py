"""Messages of a conversation as workflows send them and activities put them together again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from pydantic_ai.messages import (
    DocumentUrl,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    UserContent,
)
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.messages.conversation import ANSWER_MARK
from llm_do_temporal.policy.files.attachments import Attachment, Form

BLOB_SCHEME = "llmdo-blob:sha256/"
AS_TEXT = "?as=text"


def instructions_of(messages: Sequence[ModelMessage]) -> str | None:
    """The instructions that a request with these messages carries."""
    last = messages[-1] if messages else None
    return last.instructions if isinstance(last, ModelRequest) else None


def instructions_in(parameters: ModelRequestParameters) -> str | None:
    """The instructions that a request with these parameters carries."""
    return InstructionPart.join(parameters.instruction_parts) if parameters.instruction_parts else None


def mark_of(answer: ModelMessage | None) -> str | None:
    """The mark of an answer; None for one without, and for anything else."""
    return (answer.metadata or {}).get(ANSWER_MARK) if isinstance(answer, ModelResponse) else None


def lean(message: ModelMessage) -> ModelMessage:
    """A message without what each of them would repeat, and what no provider is told."""
    if isinstance(message, ModelRequest):
        return replace(message, instructions=None, run_id=None, conversation_id=None)
    return replace(message, model_id=None, run_id=None, conversation_id=None, metadata=None)


def reference(attachment: Attachment, form: Form) -> UserContent:
    """Return the part that stands for an attachment in a conversation."""
    query = AS_TEXT if form == "text" else ""
    url = f"{BLOB_SCHEME}{attachment.sha256}{query}#{quote(attachment.path)}"
    if form == "native" and attachment.media_type.startswith("image/"):
        return ImageUrl(url, media_type=attachment.media_type)
    return DocumentUrl(url, media_type=attachment.media_type)
