"""The bytes of a file that a call hands over: only of files that the approval in the address names."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.blob_places import workshop_blobs
from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.pdf_reading import in_thread
from llm_do_temporal.ui.asked import question_of
from llm_do_temporal.ui.attached import NO_PDF, headers_of, is_pdf
from llm_do_temporal.ui.pdfs import pages_alone


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
    try:
        data = await asyncio.to_thread(blobs.read, found.sha256)
    except EffectFailed as error:
        raise HTTPException(404) from error
    download = "download" in request.query_params
    if is_pdf(found) and not download:
        pages = await in_thread(pages_alone, data)
        if pages is None:
            said = found.model_copy(update={"media_type": "text/plain", "bytes": len(NO_PDF)})
            return Response(NO_PDF, headers=headers_of(said, download=False))
        data = pages
    return Response(data, headers=headers_of(found, download=download))


routes = [Route("/runs/{run}/approvals/{approval}/attachments/{sha256}", send_attachment)]
