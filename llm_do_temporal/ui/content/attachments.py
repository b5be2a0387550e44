"""Files that a call hands over: the ones that a page can show, and how they are sent.

A file may come from anywhere. It is sent so that nothing in it runs, and that no part of it is taken for a page
of ours: an opaque origin, no scripts, no other type than the one that was checked. A browser's PDF viewer runs the
scripts of a file (dialogs, forms that are sent), whatever the headers and the frame say; a PDF is therefore written
anew from its pages, and the file itself can be downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote

from llm_do_temporal.client import Question
from llm_do_temporal.pdf.reader import PdfFailure, pdf_pages
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.ui.content.documents.document import ReadText
from llm_do_temporal.ui.content.urls import attachment_address

MAX_TEXT_BYTES = 200_000
"""Longest text that is shown; longer ones are downloaded."""
MAX_SHOWN_BYTES, MAX_SHOWN_PAGES = 32 << 20, 1_000
"""Largest PDF whose pages are shown; others are downloaded."""
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that are shown. SVG is not among them: such a document can hold scripts."""
_PDF = "application/pdf"
NO_PDF = "The pages of this PDF cannot be shown here. Download it to see what is in it."


@dataclass(frozen=True)
class ShownAttachment:
    """File on the page of an approval."""

    name: str
    bytes: int
    media_type: str
    address: str
    how: Literal["pdf", "image", "text", "download"]
    is_here: bool
    """Whether the bytes are at hand on the page's machine."""
    sha256: str = ""
    document: ReadText | None = None
    """Text of the file where it stands on the page itself; None: it is shown by its address, if at all."""


def shown_attachments(question: Question, workshop: Path | None) -> list[ShownAttachment]:
    """Return the files of a call, in their order."""
    return [
        ShownAttachment(
            name=one.path,
            bytes=one.bytes,
            media_type=one.media_type,
            address=attachment_address(question.run, question.id, one.sha256),
            how=_how(one),
            is_here=workshop is not None,
            sha256=one.sha256,
        )
        for one in question.request.attachments
    ]


def headers_of(attachment: Attachment, *, download: bool) -> dict[str, str]:
    """Return the headers with which the bytes are sent.

    `sandbox` stands in the answer, not only in the frame's tag: so it holds wherever the address is opened, and
    Chromium shows no PDF in a frame with that tag.
    """
    how = "download" if download else _how(attachment)
    media_type = {"pdf": _PDF, "image": attachment.media_type, "text": "text/plain; charset=utf-8"}
    return {
        "Content-Type": media_type.get(how, "application/octet-stream"),
        "Content-Disposition": _disposition(attachment.path, inline=how != "download"),
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    }


def is_pdf(attachment: Attachment) -> bool:
    """Whether the attachment is a PDF, of which only the pages are shown."""
    return _how(attachment) == "pdf"


def pages_alone(data: bytes) -> bytes | None:
    """Return a PDF of the same pages without scripts, links and form fields; None if it cannot be made.

    Blocks for as long as another process may take to read the file.
    """
    if len(data) > MAX_SHOWN_BYTES:
        return None
    try:
        return pdf_pages(data, MAX_SHOWN_PAGES)
    except PdfFailure:
        return None


def _how(attachment: Attachment) -> Literal["pdf", "image", "text", "download"]:
    if attachment.media_type == _PDF:
        return "pdf"
    if attachment.media_type in _IMAGES:
        return "image"
    is_text = attachment.media_type.startswith("text/") or attachment.media_type == "application/json"
    return "text" if is_text and attachment.bytes <= MAX_TEXT_BYTES else "download"


def _disposition(path: str, *, inline: bool) -> str:
    """Return a header with the file's name: letters and digits in the plain form, the whole name percent-encoded."""
    name = PurePosixPath(path).name or "file"
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in name)
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}"
