"""Attachments as a conversation refers to them, and as a model gets them.

A history holds a reference: digest, form and name. Workflow code makes it, the activity that serves a turn
replaces it by the bytes or the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from pydantic_ai import BinaryContent
from pydantic_ai.messages import DocumentUrl, ImageUrl, ModelMessage, ModelRequest, UserPromptPart

from llm_do_temporal.activities.models.attachment_text import text_of
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.message_history import AS_TEXT, BLOB_SCHEME
from llm_do_temporal.policy.files.attachment_forms import kind_of
from llm_do_temporal.storage.blobs import BlobStore


def resolve_blobs(messages: Sequence[ModelMessage], blobs: BlobStore | None) -> list[ModelMessage]:
    """Return the conversation with every reference in user prompts replaced by the bytes or the text of its file.

    Raises AttachmentRefusal for a file without the text that is asked for, ModelFailed without a store.
    """
    return [_resolved(message, blobs) if isinstance(message, ModelRequest) else message for message in messages]


def has_blobs(messages: Sequence[ModelMessage]) -> bool:
    """Whether there is anything to resolve."""
    return any(
        _is_reference(item)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
        for item in part.content
    )


def _is_reference(item: Any) -> bool:
    return isinstance(item, DocumentUrl | ImageUrl) and item.url.startswith(BLOB_SCHEME)


def _resolved(request: ModelRequest, blobs: BlobStore | None) -> ModelRequest:
    parts = [
        replace(part, content=[_content(item, blobs) for item in part.content])
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
        else part
        for part in request.parts
    ]
    return replace(request, parts=parts)


def _content(item: Any, blobs: BlobStore | None) -> Any:
    if not _is_reference(item):
        return item
    if blobs is None:
        raise ModelFailed("this worker service has no blob store, so attachments cannot be read")
    address, _, name = item.url.removeprefix(BLOB_SCHEME).partition("#")
    digest, _, _ = address.partition("?")
    data = blobs.read(digest)
    # References without a form are of runs that were started by an earlier version: text types went in as text.
    if address.endswith(AS_TEXT) or kind_of(item.media_type) == "text":
        return text_of(data, item.media_type, unquote(name))
    return BinaryContent(data=data, media_type=item.media_type, identifier=unquote(name) or None)
