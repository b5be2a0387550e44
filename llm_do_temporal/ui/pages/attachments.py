"""The bytes of a file that a call hands over: only of files that the approval in the address names."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.pdf.reader import in_thread
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.ui.content.attachments import NO_PDF, headers_of, is_pdf, pages_alone
from llm_do_temporal.ui.content.questions import question_of

T = TypeVar("T")
PDFS_AT_ONCE = 2
"""Read for the page at once; more wait. There are only some threads, and all other parts of the page need them, too."""


async def send_attachment(request: Request) -> Response:
    """The file, to be looked at where a browser can show it safely, else to be kept."""
    question = await question_of(request)
    digest = request.path_params["sha256"]
    found = next((one for one in question.request.attachments if one.sha256 == digest), None)
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
        said = found.model_copy(update={"media_type": "text/plain", "bytes": len(NO_PDF)})
        return Response(NO_PDF, headers=headers_of(said, download=False))
    return Response(pages, headers=headers_of(found, download=False))


def _room_of(request: Request) -> asyncio.Semaphore:
    """What lets some PDFs be read at once, for this application."""
    state = request.app.state
    if not hasattr(state, "room_for_pdfs"):
        state.room_for_pdfs = asyncio.Semaphore(PDFS_AT_ONCE)
    return state.room_for_pdfs


async def _pages(room: asyncio.Semaphore, blobs: BlobStore, sha256: str) -> bytes | None:
    """The pages of a PDF; it waits for its turn without a thread, and without the file."""
    async with room:
        return await in_thread(pages_alone, await asyncio.to_thread(blobs.read, sha256))


async def _while_wanted(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of the work, which is cancelled when the browser leaves: then None, which nobody reads."""
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
