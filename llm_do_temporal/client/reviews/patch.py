"""Patch of a run's changes, for `git apply`: those that wait for a review, that stay aside, or were committed last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistoryEventFilterType

from llm_do_temporal.client.connection.connect import out_of_reach
from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.history.events import put_back, read_chain
from llm_do_temporal.client.history.payloads import first_object
from llm_do_temporal.client.reviews.contents import ReviewContents
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.activities import COMMIT_CHANGES
from llm_do_temporal.policy.layers.carried import CarriedLayer
from llm_do_temporal.policy.layers.layer import Layer
from llm_do_temporal.policy.layers.nodes import NodeKind
from llm_do_temporal.sandbox.layers.base_files import base_files
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient


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
    moved = [
        path
        for path, one in layer.changes.items()
        if one.base is not None and one.base.kind is NodeKind.FILE and one.base.blob is None
    ]
    if moved:
        raise UsageError(
            f"'{moved[0]}' is no longer as it was when the run changed it, so no patch fits",
            next_step="Try the worker again, over the files as they are now.",
        )
    return ReviewContents(blobs).patch(layer)


def _patch(blobs: BlobStore, manifest: str) -> str:
    return ReviewContents(blobs).patch(Layer.model_validate_json(blobs.read(manifest)))
