"""Attachments as a conversation refers to them, and as a model gets them.

A history holds a reference: digest, form and name. Workflow code makes it, the activity that serves a turn
replaces it by the bytes or the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from pydantic_ai import BinaryContent
from pydantic_ai.messages import DocumentUrl, ImageUrl, ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model

from llm_do_temporal.activities.models.attachment_text import flaw_of_pdf, text_of
from llm_do_temporal.errors import AttachmentRefusal, ModelFailed
from llm_do_temporal.message_history import AS_TEXT, BLOB_SCHEME
from llm_do_temporal.policy.files.attachments import PDF, UNKNOWN, flaw_of, is_taken, kind_of, real_type
from llm_do_temporal.policy.files.encodings import readable
from llm_do_temporal.storage.blobs import BlobStore


def resolve_blobs(
    messages: Sequence[ModelMessage], blobs: BlobStore | None, model: Model, told: list[str]
) -> list[ModelMessage]:
    """Return the conversation with every reference in user prompts replaced by the bytes or the text of its file.

    A file that the model's provider would refuse is replaced by its text, or by a line that says why it has none.
    `told` gets a line for people about each file that the model does not get as it is.

    Raises AttachmentRefusal for a file without the text that is asked for, ModelFailed without a store.
    """
    return [
        _resolved(message, blobs, model, told) if isinstance(message, ModelRequest) else message for message in messages
    ]


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


def _resolved(request: ModelRequest, blobs: BlobStore | None, model: Model, told: list[str]) -> ModelRequest:
    parts = [
        replace(part, content=[_content(item, blobs, model, told) for item in part.content])
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
        else part
        for part in request.parts
    ]
    return replace(request, parts=parts)


def _content(item: Any, blobs: BlobStore | None, model: Model, told: list[str]) -> Any:
    if not _is_reference(item):
        return item
    if blobs is None:
        raise ModelFailed("this worker service has no blob store, so attachments cannot be read")
    address, _, name = item.url.removeprefix(BLOB_SCHEME).partition("#")
    digest, _, _ = address.partition("?")
    data, name, declared = blobs.read(digest), unquote(name), item.media_type
    # References without a form are of runs that were started by an earlier version: text types went in as text.
    if address.endswith(AS_TEXT) or kind_of(declared) == "text":
        if real_type(data, declared) != PDF and (lost := readable(data)[1]):
            told.append(f"{name}: {lost}")
        return text_of(data, declared, name)
    # A script takes every file as it is.
    return _file(data, declared, name) if model.provider is None else _checked(data, declared, name, model, told)


def _checked(data: bytes, declared: str, name: str, model: Model, told: list[str]) -> BinaryContent | str:
    """Return a file as the model's provider takes it, or its text, or a line that says why it has neither."""
    real = real_type(data, declared)
    flaw = flaw_of(data, real) or (flaw_of_pdf(data) if real == PDF else "")
    if not flaw and kind_of(real) == "text":
        return text_of(data, declared, name)
    if not flaw and is_taken([one.__name__ for one in type(model).__mro__], real):
        return _file(data, real, name)
    why = flaw or "this model does not take files of this type"
    if real == PDF:
        with suppress(AttachmentRefusal):
            line = f"{name} is given as text: {why}."
            content = f"{line}\n{text_of(data, real, name)}"
            told.append(line)
            return content
    called = f"{real}, called {declared}" if real not in (declared, UNKNOWN) else declared
    told.append(f"The content of {name} ({called}) is not given: {why}.")
    return told[-1]


def _file(data: bytes, media_type: str, name: str) -> BinaryContent:
    return BinaryContent(data=data, media_type=media_type, identifier=name or None)
