"""Bytes of files that calls hand over, that runs were given, and that runs have written.

Only of files that the approval, the run or the invocation in the address names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.record.facts import read_facts, read_files, written_bytes
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import EffectFailed, LlmDoError
from llm_do_temporal.pdf.reader import in_thread
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.ui.content.documents import document_of
from llm_do_temporal.ui.content.files import NO_PDF, ShownAttachment, as_attachment, headers_of, is_pdf, pages_alone
from llm_do_temporal.ui.content.questions import question_of
from llm_do_temporal.ui.content.sources import language_of
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
    """Send the attachment that the address names by its digest."""
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
