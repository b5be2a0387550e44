"""Review questions of a run, read from its history and the blob store, and decisions about them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from llm_do_temporal.client.connection.connect import out_of_reach
from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.reviews.contents import ReviewContents
from llm_do_temporal.client.reviews.review import Review, ReviewChange
from llm_do_temporal.client.views.transcript_pages import read_part_with
from llm_do_temporal.errors import DecisionRefused, EffectFailed, UsageError
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind
from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.policy.layers.answer import ReviewAnswer
from llm_do_temporal.policy.layers.review import ReviewManifest
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.history.questions import Question


@dataclass(frozen=True)
class ChangeOrigin:
    """Turn of a model in which a change was made."""

    invocation: str
    """Path of the invocation in its run, like `main/editor-1`."""
    turn: int
    """Number of the turn; 0 for a person."""
    words: str
    """Text that the model wrote in that turn, or in the last one before it in which it wrote any; empty: none."""
    words_turn: int
    """Turn of the words; 0 where there are none."""


async def read_reviews(client: LlmDoClient, run: str) -> list[Review]:
    """Return all review questions of a run, open or decided, in order.

    Of each manifest one blob is read, and no bytes of files. Raises UsageError for an unknown run and where no blob
    store is known, EffectFailed for a manifest that is not there any more.
    """
    asked = [one for one in await client.questions(run) if one.request.review is not None]
    if not asked:
        return []
    blobs = blobs_of(client.temporal.data_converter)
    if blobs is None:
        raise out_of_reach()
    return await asyncio.to_thread(reviews_of, asked, blobs)


def reviews_of(questions: list[Question], blobs: BlobStore) -> list[Review]:
    """Return the reviews that these questions ask for; others are left out. Raises EffectFailed."""
    manifests: dict[str, ReviewManifest] = {}
    reviews: list[Review] = []
    for question in questions:
        shown = question.request.review
        if shown is None:
            continue
        if shown.manifest not in manifests:
            manifests[shown.manifest] = _manifest(blobs, shown.manifest)
        reviews.append(Review(question, shown, manifests[shown.manifest], ReviewContents(blobs)))
    return reviews


async def decide_review(
    client: LlmDoClient,
    review: Review,
    answer: ReviewAnswer | None,
    *,
    note: str = "",
    by: str = "",
    hold: int = 0,
    via: str = "",
) -> Approval | None:
    """Decide a review as it was read; None for `answer` rejects all of it, with `note` as the reason.

    None is returned where no worker service has answered yet. Raises DecisionRefused, also for an answer that is not
    about these changes, before anything is sent.
    """
    question = review.question
    kind, args = DecisionKind.REJECT, None
    if answer is None and not note.strip():
        raise UsageError("a review is rejected with a reason, which the model is told")
    if answer is not None:
        await asyncio.to_thread(check_answer, review, answer)
        is_as_asked = question.args == question.request.args and answer == review.answer
        kind = DecisionKind.APPROVE if is_as_asked else DecisionKind.MODIFY
        args = None if is_as_asked else answer.model_dump(mode="json")
    digest = question.request.digest or None
    decision = Decision(id=question.id, decision=kind, digest=digest, args=args, note=note, by=by, hold=hold, via=via)
    return await client.decide(question.run, decision)


def check_answer(review: Review, answer: ReviewAnswer) -> None:
    """Raise DecisionRefused unless the answer fits the review; reads the files of which it accepts parts."""
    if answer.changes != review.shown.section.digest:
        raise DecisionRefused("the answer is about other changes", next_step="Look at the review again.")
    answer.paths(review.layer, frozenset(review.conflicts))
    for path in (*answer.edits, *(comment.path for comment in answer.comments)):
        review.change(path)
    for path, ids in answer.hunks.items():
        review.contents.check_hunks(review.change(path).change, ids)


async def read_origin(client: LlmDoClient, review: Review, change: ReviewChange) -> ChangeOrigin:
    """Return the turn that made a change, with the words of the model. Raises UsageError where it is not kept."""
    author = change.change.author
    words, turn = "", 0
    if author.turn:
        run = review.question.run
        async with translated(run):
            page = await read_part_with(client.temporal, workflow_id_of(run, author.invocation), author.turn)
        texts = [one for one in page.entries if one.kind == "text" and one.turn <= author.turn]
        turn = max((one.turn for one in texts), default=0)
        words = "\n\n".join(one.text for one in texts if one.turn == turn)
    return ChangeOrigin(author.invocation, author.turn, words, turn)


def _manifest(blobs: BlobStore, name: str) -> ReviewManifest:
    try:
        return ReviewManifest.model_validate_json(blobs.read(name))
    except ValidationError:
        raise EffectFailed(
            f"blob '{name}' is no review", next_step="A review is read by the version that wrote it, or a later one."
        ) from None
