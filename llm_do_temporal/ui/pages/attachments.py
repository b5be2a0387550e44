"""Bytes of files that calls hand over, that runs were given, and that runs have written.

Only of files that the approval, the run or the invocation in the address names.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import Question
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.record.facts import (
    RunFacts,
    WrittenFile,
    last_written,
    read_facts,
    read_files,
    written_bytes,
)
from llm_do_temporal.client.record.results import Track
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import EffectFailed, LlmDoError
from llm_do_temporal.pdf.reader import PdfFailure, in_thread, pdf_pages
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.ui.content.documents import ReadText, document_of, language_of
from llm_do_temporal.ui.content.questions import question_of
from llm_do_temporal.ui.content.urls import attachment_address, given_file_address, written_file_address
from llm_do_temporal.ui.requests import client_of, settings_of, shared

T = TypeVar("T")
PDFS_AT_ONCE = 2
"""PDFs that are read at once; more wait, since all parts of the page share a few threads."""


async def send_attachment(request: Request) -> Response:
    """Send the file, to be shown if a browser can do that safely, else to be downloaded."""
    question = await question_of(request)
    return await _send_blob(request, question.request.attachments)


async def send_given(request: Request) -> Response:
    """Send a file that a run was given."""
    client = client_of(request).temporal
    run = await read_run(client, request.path_params["run"])
    async with translated(run.run):
        facts = await read_facts(client, run)
    return await _send_blob(request, facts.all_attachments)


async def send_written(request: Request) -> Response:
    """Send a file that a run has written, as it is now."""
    run, workshop = request.path_params["run"], settings_of(request).workshop
    name, by = (request.query_params.get(key, "") for key in ("file", "by"))
    async with translated(run):
        written = await read_files(client_of(request).temporal, run, by)
    found = next((one for one in written if one.place.path == name), None)
    if found is None or workshop is None:
        raise HTTPException(404)
    try:
        data = await asyncio.to_thread(written_bytes, workshop, found.place)
    except (LlmDoError, OSError) as error:
        raise HTTPException(404) from error
    return await send_file(request, as_attachment(found, data), lambda: data)


async def _send_blob(request: Request, attachments: Sequence[Attachment]) -> Response:
    digest = request.path_params["sha256"]
    found = next((each for each in attachments if each.sha256 == digest), None)
    workshop = settings_of(request).workshop
    if found is None or workshop is None:
        raise HTTPException(404)
    blobs = await blobs_at(request, workshop)
    return await send_file(request, found, lambda: blobs.read(digest))


async def blobs_at(request: Request, workshop: Path) -> BlobStore:
    """Return the blob store of the workshop, with the keys that the page has."""
    return await asyncio.to_thread(workshop_blobs, workshop, ring_of(client_of(request).temporal.data_converter))


async def send_file(request: Request, found: Attachment, read: Callable[[], bytes]) -> Response:
    """Send the bytes that `read` returns, which may raise EffectFailed and is called in a thread."""
    download = "download" in request.query_params
    try:
        if download or not is_pdf(found):
            data = await asyncio.to_thread(read)
            return Response(data, headers=headers_of(found, download=download))
        room = shared(request, "room_for_pdfs", lambda _client: asyncio.Semaphore(PDFS_AT_ONCE))
        pages = await _while_wanted(request, _pages(room, read))
    except EffectFailed as error:
        raise HTTPException(404) from error
    if pages is None:
        notice = found.model_copy(update={"media_type": "text/plain", "bytes": len(NO_PDF)})
        return Response(NO_PDF, headers=headers_of(notice, download=False))
    return Response(pages, headers=headers_of(found, download=False))


async def with_documents(request: Request, shown: Sequence[ShownAttachment]) -> list[ShownAttachment]:
    """Return the attachments, those of a known kind of text with the text as people read it."""
    workshop = settings_of(request).workshop
    if workshop is None or not any(map(_is_document, shown)):
        return list(shown)
    try:
        blobs = await blobs_at(request, workshop)
    except LlmDoError:
        return list(shown)
    return [await asyncio.to_thread(_with_document, blobs, one) if _is_document(one) else one for one in shown]


def _is_document(shown: ShownAttachment) -> bool:
    known = language_of(shown.name) is not None or shown.name.lower().endswith((".csv", ".tsv"))
    return shown.is_here and shown.how == "text" and known


def _with_document(blobs: BlobStore, shown: ShownAttachment) -> ShownAttachment:
    try:
        text = blobs.read(shown.sha256).decode()
    except (LlmDoError, UnicodeDecodeError):
        return shown
    return replace(shown, document=document_of(shown.name, text))


async def _pages(room: asyncio.Semaphore, read: Callable[[], bytes]) -> bytes | None:
    """Return the pages of a PDF; waiting for its turn takes no thread and no memory for the file."""
    async with room:
        return await in_thread(pages_alone, await asyncio.to_thread(read))


async def _while_wanted(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; if the browser leaves, cancel it and return None, which is not read."""
    wanted, gone = asyncio.ensure_future(work), asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((wanted, gone), return_when=asyncio.FIRST_COMPLETED)
        return wanted.result() if wanted.done() else None
    finally:
        gone.cancel()
        wanted.cancel()
        await asyncio.wait((wanted, gone))


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


routes = [
    Route("/runs/{run}/approvals/{approval}/attachments/{sha256}", send_attachment),
    Route("/runs/{run}/given/{sha256}", send_given, methods=["GET"]),
    Route("/runs/{run}/written", send_written, methods=["GET"]),
]


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
