"""The review that an address names, with the blob store that has its files. Used by the pages about reviews."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.client.reviews.desk import reviews_of
from llm_do_temporal.client.reviews.review import Review
from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import EffectFailed, UsageError
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.ui.content.questions import question_of


@dataclass(frozen=True)
class OpenedReview:
    """Review with the store that its files are read from."""

    review: Review
    blobs: BlobStore


async def review_of(request: Request) -> OpenedReview:
    """Return the review that the address names. Raises UsageError, EffectFailed where it cannot be read here."""
    question = await question_of(request)
    if question.request.review is None:
        raise UsageError(f"'{question.id}' asks about a call, and not about changes")
    return await opened_review(request, question)


async def opened_review(request: Request, question: Question) -> OpenedReview:
    """Return the review that a question asks for. Raises EffectFailed where it cannot be read here."""
    blobs = await _blobs(request)
    (review,) = await asyncio.to_thread(reviews_of, [question], blobs)
    return OpenedReview(review, blobs)


async def _blobs(request: Request) -> BlobStore:
    client: LlmDoClient = request.app.state.client
    workshop, converter = request.app.state.settings.workshop, client.temporal.data_converter
    blobs = blobs_of(converter)
    if blobs is not None:
        return blobs
    if workshop is None:
        raise EffectFailed("the blob store with the changes is not where this page runs")
    return await asyncio.to_thread(workshop_blobs, workshop, ring_of(converter))
