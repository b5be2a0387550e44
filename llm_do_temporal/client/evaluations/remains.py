"""Results that an experiment had when its workflow ended, whether it still came to putting them into its record or not.

A record is written now and then; a workflow that is terminated writes no last one. Its newest history names the blobs
of the results since, and its plan those that it had taken over itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import is_missing, translated
from llm_do_temporal.client.evaluations.listings import ExperimentListing
from llm_do_temporal.client.evaluations.records import read_listed
from llm_do_temporal.client.history.events import activity_of, read_events
from llm_do_temporal.client.history.payloads import first_object
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.activities import JUDGE_CASE, SCORE_CASE
from llm_do_temporal.messages.experiments.evaluations import EvaluationPlan, RunEvaluationInput, ScoredCase
from llm_do_temporal.messages.experiments.results import CaseResult
from llm_do_temporal.storage.blobs import BlobStore

M = TypeVar("M", bound=BaseModel)


async def read_remains(client: Client, listing: ExperimentListing, blobs: BlobStore) -> list[CaseResult]:
    """Return the results that an experiment which has ended had, the newest of each unit last.

    Raises ConnectionFailed, EffectFailed for a record that is not there any more, and KeyMismatch.
    """
    recorded = (await read_listed(client, listing)).record.results if listing.facts.record else ()
    if listing.state == "completed":
        return list(recorded)
    taken, newer = await _named(client, listing.workflow, blobs)
    before = await asyncio.to_thread(_kept, blobs, taken)
    since = await asyncio.to_thread(_kept, blobs, newer)
    return [*before, *recorded, *since]


async def _named(client: Client, workflow: str, blobs: BlobStore) -> tuple[list[str], list[str]]:
    """Return the blobs of results that the plan has taken over, and of those in the newest history."""
    taken, newer, scored = list[str](), list[str](), set[int]()
    async for event in _newest_history(client, workflow):
        begun = event.workflow_execution_started_event_attributes.input.payloads
        if begun:
            start = RunEvaluationInput.model_validate(first_object(begun))
            plan = await asyncio.to_thread(_read, EvaluationPlan, blobs, start.plan)
            taken += [] if plan is None else plan.taken.values()
            newer += [] if start.continued is None else start.continued.newer
        if event.activity_task_scheduled_event_attributes.activity_type.name in (SCORE_CASE.name, JUDGE_CASE.name):
            scored.add(event.event_id)
        ended = event.activity_task_completed_event_attributes.result.payloads
        if ended and activity_of(event) in scored:
            newer.append(ScoredCase.model_validate(first_object(ended)).result)
    return taken, newer


async def _newest_history(client: Client, workflow: str) -> AsyncIterator[HistoryEvent]:
    """Yield the events of the newest execution of a workflow; none where the server does not keep it any longer."""
    handle = client.get_workflow_handle(workflow)
    async with translated():
        try:
            async for event in read_events(handle, wait=False, converter=client.data_converter):
                yield event
        except RPCError as error:
            if not is_missing(error):
                raise


def _kept(blobs: BlobStore, digests: list[str]) -> list[CaseResult]:
    return [found for digest in digests if (found := _read(CaseResult, blobs, digest)) is not None]


def _read(kind: type[M], blobs: BlobStore, digest: str) -> M | None:
    """Return what is kept as this blob; None where it is gone, or of another version: what it told is done anew."""
    try:
        return kind.model_validate_json(blobs.read(digest))
    except (EffectFailed, ValidationError):
        return None
