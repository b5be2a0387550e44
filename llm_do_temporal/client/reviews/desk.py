"""Review questions of a run, read from its history and the blob store; decisions about them; patches of changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistoryEventFilterType

from llm_do_temporal.client.connections import out_of_reach, translated
from llm_do_temporal.client.history.events import first_object, put_back, read_chain
from llm_do_temporal.client.reviews.review import Review, ReviewChange, ReviewContents
from llm_do_temporal.client.views.transcripts import read_part_with
from llm_do_temporal.errors import DecisionRefused, EffectFailed, LlmDoError, UsageError
from llm_do_temporal.extensions.review.messages import COMMIT_CHANGES, shown_review
from llm_do_temporal.extensions.review.policy.answer import ReviewAnswer
from llm_do_temporal.extensions.review.policy.sections import ReviewManifest
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind
from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.policy.layers.layer import CarriedLayer, Layer
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files, folds_names, without_bases
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.history.questions import Question


def compared(review: Review, workshop: Path | None) -> Review:
    """Return the review with the paths that have changed since it was asked; as it is where that cannot be seen.

    Only files on this machine are: each file of the review is read. A review that goes to a git branch, or that was
    answered, is not compared. Blocks.
    """
    if workshop is None or review.shown.branch or not review.question.is_open:
        return review
    try:
        with base_files(workshop) as base:
            # A section may need folders of another one.
            conflicts = against(review.manifest.layer, base, folds=folds_names(base)).conflicts
    except (LlmDoError, OSError):
        return review
    mine = review.layer.changes
    return replace(review, moved={one.path: str(one.kind) for one in conflicts if one.path in mine})


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
    asked = [one for one in await client.questions(run) if one.request.extension is not None]
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
        shown = shown_review(question.request)
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


async def read_patch(client: LlmDoClient, run: str, workshop: Path | None = None) -> str:
    """Return the patch of all that the run's open review proposes, that it has kept aside, else of its last commit.

    `workshop` has the files that changes kept aside are held against. Raises UsageError for a run that has none of
    these, and where no blob store is known, EffectFailed for missing bytes.
    """
    reviews = await client.reviews(run)
    waiting = {one.shown.manifest: one for one in reviews if one.question.is_open}
    if waiting:
        layers = [(one.contents, one.manifest.layer) for one in waiting.values()]
        return "".join([await asyncio.to_thread(contents.patch, layer) for contents, layer in layers])
    invocations = dict.fromkeys([run, *(one.question.request.invocation for one in reviews)])
    blobs = blobs_of(client.temporal.data_converter)
    if blobs is None:
        raise out_of_reach()
    aside = await _aside(client.temporal, run)
    if aside is not None:
        return await asyncio.to_thread(_patch_aside, blobs, aside, workshop)
    async with translated(run):
        found = [name for one in invocations for name in await _committed(client.temporal, one)]
    if not found:
        raise UsageError(f"run '{run}' has no changes that wait for a review or stay aside, and has committed none")
    return await asyncio.to_thread(_patch, blobs, found[-1])


async def _committed(client: Client, workflow_id: str) -> list[str]:
    """Return the blobs of the layers that an invocation has committed, in order."""
    asked: dict[int, str] = {}
    found: list[str] = []
    async for event in read_chain(client, workflow_id, None, wait=False):
        if event.HasField("workflow_execution_started_event_attributes"):
            asked.clear()
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == COMMIT_CHANGES.name:
            asked[event.event_id] = str(first_object(scheduled.input.payloads).get("manifest") or "")
        completed = event.activity_task_completed_event_attributes
        manifest = asked.pop(completed.scheduled_event_id, "")
        if manifest and first_object(completed.result.payloads).get("committed"):
            found.append(manifest)
    return found


async def _aside(client: Client, run: str) -> CarriedLayer | None:
    """Return all changes of a run that has kept them aside; None for any other run, and one that changed nothing."""
    handle = client.get_workflow_handle(run)
    async with translated(run):
        # Asked for the end of a run that goes on, the server waits for it, for a while.
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            return None
        events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
        last = await anext(events, None)
        if last is None:
            return None
        await put_back(last, client.data_converter)
    layer = first_object(last.workflow_execution_completed_event_attributes.result.payloads).get("layer")
    return None if layer is None else CarriedLayer.model_validate(layer)


def _patch_aside(blobs: BlobStore, aside: CarriedLayer, workshop: Path | None) -> str:
    contents = LayerContents(blobs)
    layer = contents.whole(aside)
    if workshop is not None:
        with base_files(workshop, contents=contents) as base:
            layer = contents.with_bases(layer, base)
    if moved := without_bases(layer):
        raise UsageError(
            f"'{moved[0]}' is no longer as it was when the run changed it, so no patch fits",
            next_step="Try the worker again, over the files as they are now.",
        )
    return ReviewContents(blobs).patch(layer)


def _patch(blobs: BlobStore, manifest: str) -> str:
    return ReviewContents(blobs).patch(Layer.model_validate_json(blobs.read(manifest)))
