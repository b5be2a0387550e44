"""Bytes of a file that a call hands over: only of files that the approval in the address names."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import EffectFailed, LlmDoError
from llm_do_temporal.pdf.reader import in_thread
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.ui.content.attachments import NO_PDF, ShownAttachment, headers_of, is_pdf, pages_alone
from llm_do_temporal.ui.content.documents.document import document_of
from llm_do_temporal.ui.content.documents.syntax import language_of
from llm_do_temporal.ui.content.questions import question_of

T = TypeVar("T")
PDFS_AT_ONCE = 2
"""PDFs that are read at once; more wait, since all parts of the page share a few threads."""


async def send_attachment(request: Request) -> Response:
    """Send the file, to be shown if a browser can do that safely, else to be downloaded."""
    question = await question_of(request)
    digest = request.path_params["sha256"]
    found = next((each for each in question.request.attachments if each.sha256 == digest), None)
    workshop = request.app.state.settings.workshop
    if found is None or workshop is None:
        raise HTTPException(404)
    ring = ring_of(request.app.state.client.temporal.data_converter)
    blobs = await asyncio.to_thread(workshop_blobs, workshop, ring)
    download = "download" in request.query_params
    try:
        if download or not is_pdf(found):
            data = await asyncio.to_thread(blobs.read, found.sha256)
            return Response(data, headers=headers_of(found, download=download))
        pages = await _while_wanted(request, _pages(_room_of(request), blobs, found.sha256))
    except EffectFailed as error:
        raise HTTPException(404) from error
    if pages is None:
        notice = found.model_copy(update={"media_type": "text/plain", "bytes": len(NO_PDF)})
        return Response(NO_PDF, headers=headers_of(notice, download=False))
    return Response(pages, headers=headers_of(found, download=False))


async def with_documents(request: Request, shown: Sequence[ShownAttachment]) -> list[ShownAttachment]:
    """Return the attachments, those of a known kind of text with the text as people read it."""
    if not any(map(_is_document, shown)):
        return list(shown)
    ring = ring_of(request.app.state.client.temporal.data_converter)
    try:
        blobs = await asyncio.to_thread(workshop_blobs, request.app.state.settings.workshop, ring)
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


def _room_of(request: Request) -> asyncio.Semaphore:
    """Return the semaphore of this application that lets `PDFS_AT_ONCE` be read."""
    state = request.app.state
    if not hasattr(state, "room_for_pdfs"):
        state.room_for_pdfs = asyncio.Semaphore(PDFS_AT_ONCE)
    return state.room_for_pdfs


async def _pages(room: asyncio.Semaphore, blobs: BlobStore, sha256: str) -> bytes | None:
    """Return the pages of a PDF; waiting for its turn takes no thread and no memory for the file."""
    async with room:
        return await in_thread(pages_alone, await asyncio.to_thread(blobs.read, sha256))


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


routes = [Route("/runs/{run}/approvals/{approval}/attachments/{sha256}", send_attachment)]
