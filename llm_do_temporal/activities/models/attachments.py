"""Attachments of a conversation as a model gets them: their bytes, or their text.

A history holds a reference: digest, form and name. Workflow code makes it; the activity that serves a turn replaces it,
in a thread. PDFs are parsed in another process, within limits. Nothing of a file is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from pydantic_ai import BinaryContent
from pydantic_ai.messages import DocumentUrl, ImageUrl, ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model

from llm_do_temporal.errors import AttachmentRefusal, ModelFailed
from llm_do_temporal.message_history import AS_TEXT, BLOB_SCHEME
from llm_do_temporal.pdf.reader import Order, PdfFailure, pdf_flaw, pdf_text
from llm_do_temporal.policy.files.attachments import PDF, UNKNOWN, flaw_of, is_taken, kind_of, real_type
from llm_do_temporal.policy.files.encodings import readable
from llm_do_temporal.storage.blobs import BlobStore

MAX_ATTACHED_CHARS = 400_000
"""Some hundred thousand tokens: no model reads more of one file with profit, and most could not take it."""
MAX_PAGES = 1_000
_KEPT_TEXTS = 16
"""Every turn of a conversation sends its attachments again; reading a long PDF takes seconds."""
_READABLE_CHARS = 2
"""A page with fewer letters or digits has no text: a page number at most."""
_WHOLE = "Attach a copy that opens in its own program, without a password; another model cannot read this one, either."
_ORDER = Order("text", MAX_PAGES, characters=MAX_ATTACHED_CHARS)


def text_of(data: bytes, declared: str, name: str) -> str:
    """Return the file's text, after a line with its name and kind. Raises AttachmentRefusal where it has none.

    What the file is counts, and not its `declared` media type. A PDF whose beginning is damaged may be readable.
    """
    real = real_type(data, declared)
    if PDF in (real, declared) and kind_of(real) != "text":
        return _pdf_text(data, name)
    text, lost = readable(data)
    if lost and kind_of(real) != "text":
        why = "" if declared == UNKNOWN else flaw_of(data, real)
        raise AttachmentRefusal(
            f"'{name}' ({real}) cannot be given to this model: {why or 'it is neither text nor a PDF'}",
            next_step=_WHOLE if why else "Attach it as text or PDF, or choose a model that takes such files.",
        )
    is_miscalled = real != declared and kind_of(real) == "text"
    called = f"{name} is called {declared}, and is {real}.\n" if is_miscalled else ""
    remark = f" ({lost}; who attached it should convert it to UTF-8)" if lost else ""
    if len(text) > MAX_ATTACHED_CHARS:
        text = f"{text[:MAX_ATTACHED_CHARS]}\n[cut here: {MAX_ATTACHED_CHARS} of {len(text)} characters]"
    return f"{called}Content of {name}{remark}:\n{text}"


@lru_cache(maxsize=_KEPT_TEXTS)
def flaw_of_pdf(data: bytes) -> str:
    """Return why readers cannot read all of a PDF whose end is there, as a clause; empty where nothing is known."""
    try:
        return pdf_flaw(data, MAX_PAGES)
    except PdfFailure as failure:
        # A file that takes too long, or too much memory, may be a good one.
        return "" if failure.kind == "TooMuch" else "it is damaged: it cannot be read as a PDF"


@lru_cache(maxsize=_KEPT_TEXTS)
def _pdf_text(data: bytes, name: str) -> str:
    try:
        found = pdf_text(data, _ORDER)
    except PdfFailure as failure:
        raise _refusal(failure, data, name) from failure
    if not found.count:
        raise AttachmentRefusal(f"'{name}' is a PDF without pages", next_step=_WHOLE)
    pages = found.texts
    unreadable = [number for number, text in enumerate(pages, 1) if sum(map(str.isalnum, text)) < _READABLE_CHARS]
    if len(unreadable) == len(pages):
        raise AttachmentRefusal(
            f"'{name}' cannot be given to this model as text: {len(pages)} of {len(pages)} pages have no readable text",
            next_step="It is probably a scan. Run text recognition on it, or choose a model that takes PDFs.",
        )
    lines = [f"Text of {name} (PDF, {found.count} pages): you get the text only, without layout and pictures."]
    if unreadable:
        listed = ", ".join(map(str, unreadable[:50]))
        lines.append(f"{len(unreadable)} of {len(pages)} pages have no readable text: {listed}.")
    for number, text in enumerate(pages, 1):
        lines += ["", f"--- page {number} ---", "(no readable text)" if number in unreadable else text.strip()]
    if not found.is_whole:
        lines.append(
            f"[cut here, on page {len(pages)} of {found.count}: there are more than {MAX_ATTACHED_CHARS} characters]"
        )
    return "\n".join(lines)


def _refusal(failure: PdfFailure, data: bytes, name: str) -> AttachmentRefusal:
    what, _, number = str(failure).partition(" ")
    if failure.kind == "Refused" and what == "password":
        return AttachmentRefusal(
            f"'{name}' is a PDF with a password and cannot be read", next_step="Attach a copy without the password."
        )
    if failure.kind == "Refused":
        return AttachmentRefusal(
            f"'{name}' has {number} pages; the text of at most {MAX_PAGES} can be given",
            next_step="Attach a part of it.",
        )
    if failure.kind == "TooMuch":
        return AttachmentRefusal(
            f"'{name}' cannot be read as a PDF: {failure}",
            next_step="Attach a part of it, or choose a model that takes PDFs.",
        )
    # What the parser says of it are names of its own classes.
    real = real_type(data, PDF)
    why = flaw_of(data, real) or ("it is damaged" if real == PDF else f"its content is {real}")
    return AttachmentRefusal(f"'{name}' cannot be read as a PDF: {why}", next_step=_WHOLE)


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
    if address.endswith(AS_TEXT):
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
