"""The text of an attached file, for a model that does not get the file itself.

Called while a turn is served. Parses hostile bytes; what it returns is shown to a model and never kept.
"""

from __future__ import annotations

import io
import logging
from functools import lru_cache

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.attachment_forms import kind_of

MAX_CHARS = 400_000
"""Some hundred thousand tokens: no model reads more of one file with profit, and most could not take it."""
MAX_PAGES = 1_000
_KEPT_TEXTS = 16
"""Every turn of a conversation sends its attachments again; reading a long PDF takes seconds."""
_READABLE_CHARS = 2
"""A page with fewer letters or digits has no text: a page number at most."""

logging.getLogger("pypdf").setLevel(logging.ERROR)  # its warnings on odd files are no business of the operator


def text_of(data: bytes, media_type: str, name: str) -> str:
    """The file's text, after a line that says what it is. Raises AttachmentRefusal where it has none."""
    if media_type == "application/pdf":
        return _pdf_text(data, name)
    try:
        text = data.decode("utf-8", errors="replace" if kind_of(media_type) == "text" else "strict")
    except UnicodeDecodeError as error:
        raise AttachmentRefusal(
            f"'{name}' ({media_type}) cannot be given to this model: it is neither text nor a PDF",
            next_step="Attach it as text or PDF, or choose a model that takes such files.",
        ) from error
    return f"Content of {name}:\n{_cut(text)}"


@lru_cache(maxsize=_KEPT_TEXTS)
def _pdf_text(data: bytes, name: str) -> str:
    pages = _pages(data, name)
    unreadable = [number for number, text in enumerate(pages, 1) if sum(map(str.isalnum, text)) < _READABLE_CHARS]
    if len(unreadable) == len(pages):
        raise AttachmentRefusal(
            f"'{name}' cannot be given to this model as text: {len(pages)} of {len(pages)} pages have no readable text",
            next_step="It is probably a scan. Run text recognition on it, or choose a model that takes PDFs.",
        )
    lines = [f"Text of {name} (PDF, {len(pages)} pages): you get the text only, without layout and pictures."]
    if unreadable:
        listed = ", ".join(map(str, unreadable[:50]))
        lines.append(f"{len(unreadable)} of {len(pages)} pages have no readable text: {listed}.")
    for number, text in enumerate(pages, 1):
        lines += ["", f"--- page {number} ---", "(no readable text)" if number in unreadable else text.strip()]
    return _cut("\n".join(lines))


def _pages(data: bytes, name: str) -> list[str]:
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise AttachmentRefusal(f"'{name}' is a PDF with a password and cannot be read")
        count = len(reader.pages)
        if count > MAX_PAGES:
            raise AttachmentRefusal(f"'{name}' has {count} pages; the text of at most {MAX_PAGES} can be given")
        pages = [page.extract_text() for page in reader.pages]
    except AttachmentRefusal:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        # A parser meets damaged and forged files in more ways than it has exceptions for.
        raise AttachmentRefusal(
            f"'{name}' cannot be read as a PDF: {type(error).__name__}",
            next_step="Mend the file; for a model that takes PDFs, say `accepts: [text, pdf]` under `models:`.",
        ) from error
    if not pages:
        raise AttachmentRefusal(f"'{name}' is a PDF without pages")
    return pages


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]}\n[cut here: {MAX_CHARS} of {len(text)} characters]"
