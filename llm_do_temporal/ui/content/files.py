"""Files of calls and of runs: the ones that a page can show, how they are sent, and their addresses.

A file may come from anywhere. It is sent so that nothing in it runs, and that no part of it is taken for a page
of ours: an opaque origin, no scripts, no other type than the one that was checked. A browser's PDF viewer runs the
scripts of a file (dialogs, forms that are sent), whatever the headers and the frame say; a PDF is therefore written
anew from its pages, and the file itself can be downloaded.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote, urlencode

from llm_do_temporal.client import Question
from llm_do_temporal.client.record.facts import RunFacts, WrittenFile, last_written
from llm_do_temporal.client.record.results import Track
from llm_do_temporal.pdf.reader import PdfFailure, pdf_pages
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.ui.content.documents import ReadText
from llm_do_temporal.ui.content.urls import attachment_address, given_file_address, written_file_address

MAX_TEXT_BYTES = 200_000
"""Longest text that is shown; longer ones are downloaded."""
MAX_SHOWN_BYTES, MAX_SHOWN_PAGES = 32 << 20, 1_000
"""Largest PDF whose pages are shown; others are downloaded."""
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that are shown. SVG is not among them: such a document can hold scripts."""
_PDF = "application/pdf"
NO_PDF = "The pages of this PDF cannot be shown here. Download it to see what is in it."
_ORDINARY = "application/octet-stream"
_TEXTS = frozenset(
    (".md", ".txt", ".csv", ".json", ".yaml", ".yml", ".py", ".worker", ".html", ".xml", ".toml", ".log")
)
"""Suffixes of files that are shown as plain text, whatever a browser would make of them."""


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


@dataclass(frozen=True)
class FileLine:
    """File in the record of a run."""

    name: str
    bytes: int
    address: str | None
    """Address at which it is shown; None where its bytes are not on the page's machine."""
    by: str = ""
    """Position in the tree of the invocation that wrote it; empty for one that was given."""
    created: bool = False


@dataclass(frozen=True)
class RunFiles:
    """Files of a run."""

    given: tuple[FileLine, ...]
    written: tuple[FileLine, ...]
    more: int
    """Files that reviews have made besides these, and that the histories do not name."""
    unread: int
    """Invocations whose files are not known here, as their histories were not read."""


def files_of(run: str, facts: RunFacts, tracks: Sequence[Track], size: int, workshop: Path | None) -> RunFiles:
    """Return the files of a run of `size` invocations, of which these tracks were read."""
    given = {one.sha256: one for one in facts.all_attachments}
    written = last_written([file for track in tracks for file in track.files])
    whole = sum(track.read_from is None for track in tracks)
    return RunFiles(
        tuple(_given(run, one, workshop) for one in given.values()),
        tuple(_written(run, one, workshop) for one in written),
        sum(track.more_files for track in tracks),
        max(0, size - whole),
    )


def as_attachment(file: WrittenFile, data: bytes) -> Attachment:
    """Return what a page says of the file when it sends these bytes; its digest is of no use there."""
    return Attachment(path=file.place.path, sha256="0" * 64, bytes=len(data), media_type=media_type_of(file.place.path))


def media_type_of(path: str) -> str:
    """Return the media type by which a page shows a file: text as plain text, pictures and PDF as they are."""
    suffix = Path(path).suffix.lower()
    if suffix in _TEXTS or not suffix:
        return "text/plain"
    return mimetypes.guess_type(path)[0] or _ORDINARY


def _given(run: str, file: Attachment, workshop: Path | None) -> FileLine:
    address = None if workshop is None else given_file_address(run, file.sha256)
    return FileLine(file.path, file.bytes, address)


def _written(run: str, file: WrittenFile, workshop: Path | None) -> FileLine:
    query = urlencode({"file": file.place.path, "by": file.by})
    address = None if workshop is None else f"{written_file_address(run)}?{query}"
    return FileLine(file.place.path, file.bytes, address, file.by, file.created)
