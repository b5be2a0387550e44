"""Files that a call hands over: which can be looked at on a page, and how they are sent.

A file is what somebody else wrote. It is sent so that nothing in it runs, and that nothing of it is taken for a page
of ours: an opaque origin, no scripts, no other type than the one it was judged by. A browser's PDF viewer runs the
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
from llm_do_temporal.ui.content.urls import attachment_address

MAX_TEXT_BYTES = 200_000
"""Longer texts are downloaded."""
MAX_SHOWN_BYTES, MAX_SHOWN_PAGES = 32 << 20, 1_000
"""Larger or longer PDFs are downloaded."""
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Not SVG, which is a document that can hold scripts."""
_PDF = "application/pdf"
NO_PDF = "The pages of this PDF cannot be shown here. Download it to see what is in it."


@dataclass(frozen=True)
class ShownAttachment:
    """A file on the page of an approval."""

    name: str
    bytes: int
    media_type: str
    address: str
    how: Literal["pdf", "image", "text", "download"]
    is_here: bool
    """Whether its bytes can be had where the page runs."""


def shown_attachments(question: Question, workshop: Path | None) -> list[ShownAttachment]:
    """The files of a call, in their order."""
    return [
        ShownAttachment(
            name=one.path,
            bytes=one.bytes,
            media_type=one.media_type,
            address=attachment_address(question.run, question.id, one.sha256),
            how=_how(one),
            is_here=workshop is not None,
        )
        for one in question.request.attachments
    ]


def headers_of(attachment: Attachment, *, download: bool) -> dict[str, str]:
    """What the bytes are sent with.

    `sandbox` stands in the answer, not only in the frame's tag: it holds wherever the address is opened, and Chromium
    shows no PDF in a frame whose tag says it.
    """
    how = "download" if download else _how(attachment)
    media_type = {"pdf": _PDF, "image": attachment.media_type, "text": "text/plain; charset=utf-8"}
    return {
        "Content-Type": media_type.get(how, "application/octet-stream"),
        "Content-Disposition": _disposition(attachment.path, inline=how != "download"),
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    }


def is_pdf(attachment: Attachment) -> bool:
    """Whether its pages are shown, and not its bytes."""
    return _how(attachment) == "pdf"


def pages_alone(data: bytes) -> bytes | None:
    """A PDF of the same pages without scripts, links and form fields; None where it cannot be made.

    It blocks for as long as another process may take to read it.
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
    """A header with the file's name: letters and digits alone in the plain form, the whole name percent-encoded."""
    name = PurePosixPath(path).name or "file"
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in name)
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}"
