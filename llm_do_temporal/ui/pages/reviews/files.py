"""Files of a review one by one: what changes in them, for a page that is open, their bytes, and why they changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client.reviews.desk import read_origin
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.layers.layer import NodeKind
from llm_do_temporal.storage.snapshots import SNIFFED_BYTES, guess_media_type
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.reviews.choices import change_at, first_choice, number_of
from llm_do_temporal.ui.content.reviews.rows import body_of, row_of
from llm_do_temporal.ui.pages.attachments import send_file
from llm_do_temporal.ui.pages.reviews.questions import review_of


async def show_file(request: Request) -> Response:
    """Show what changes in one file, for a page that has only its line so far."""
    opened = await review_of(request)
    review, number = opened.review, number_of(opened.review, request.path_params["number"])
    choice = first_choice(review)
    row = row_of(review, choice, number)
    body = await asyncio.to_thread(body_of, review, choice, row, opened.blobs)
    question = review.question
    approvers = question.request.approvers
    barred = bool(approvers) and request.state.user not in approvers
    may_decide = question.is_open and not barred
    return render(request, "review_file.html", row=replace(row, body=body), may_decide=may_decide)


async def send_side(request: Request) -> Response:
    """Send the bytes of one side of a change: as it was, or as it is in the layer."""
    opened = await review_of(request)
    change = change_at(opened.review, request.path_params["number"]).change
    if request.path_params["side"] not in ("old", "new"):
        raise HTTPException(404)
    is_new = request.path_params["side"] == "new"
    node, path = (change.now, change.path) if is_new else (change.base, change.old_path or change.path)
    if node is None or node.kind is not NodeKind.FILE:
        raise HTTPException(404)
    try:
        data = await asyncio.to_thread(opened.review.contents.bytes, node, path)
    except LlmDoError as error:
        raise HTTPException(404) from error
    # By its bytes, whatever a model has called it.
    media_type = guess_media_type("", data[:SNIFFED_BYTES])
    sent = Attachment(path=path, sha256=node.sha256, bytes=len(data), media_type=media_type)
    return await send_file(request, sent, lambda: data)


async def show_reason(request: Request) -> Response:
    """Show the words of the model in the turn in which it made a change."""
    opened = await review_of(request)
    number = number_of(opened.review, request.path_params["number"])
    change = opened.review.changes[number]
    origin = await read_origin(request.app.state.client, opened.review, change)
    address = row_of(opened.review, first_choice(opened.review), number).author_address
    return render(request, "review_reason.html", origin=origin, address=address)


_ADDRESS = "/runs/{run}/approvals/{approval}/files/{number}"
routes = [
    Route(_ADDRESS, show_file, methods=["GET"]),
    Route(f"{_ADDRESS}/why", show_reason, methods=["GET"]),
    Route(_ADDRESS + "/{side}", send_side, methods=["GET"]),
]
