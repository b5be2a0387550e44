"""Removing what nothing needs any more: blobs, and journals of commits.

Owns what "needed" means: a blob is needed when its digest is anywhere in the history of a run that the server still
has, open or not, in what a schedule starts, or in a blob that is needed. Nothing is read but 64 hexadecimal digits, so
nothing depends on what kind of reference it is. Must not remove anything before all histories were read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connections import is_missing
from llm_do_temporal.client.history.events import put_back
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch
from llm_do_temporal.extension import added, run_starters
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.storage.blobs import ManagedBlobStore, StoredBlob

SAFETY_AGE = timedelta(hours=1)
"""A blob is there before the history that refers to it: files are copied before their run is started."""
OUR_TYPES = "LlmDo"
"""Beginning of the names of all workflow types of the product, those of its capabilities included."""
_DIGEST_CHARS = 64
_HEXADECIMAL = re.compile(rb"[0-9a-f]{64,}")


@dataclass(frozen=True)
class Collected:
    """Outcome of the search for blobs that nothing needs."""

    workflows: int
    """Number of histories that were read."""
    removed: tuple[StoredBlob, ...]
    """Blobs that are gone now, or, where nothing was to be changed, those that would be."""
    left: tuple[StoredBlob, ...]
    """Blobs that are needed, or were put too recently to tell."""


async def collect(
    client: Client, blobs: ManagedBlobStore, *, older_than: timedelta = SAFETY_AGE, dry_run: bool = False
) -> Collected:
    """Remove every blob that no run needs which this server still has, and that was put longer ago than that.

    Raises ConnectionFailed, and EffectFailed for a needed blob that cannot be read; nothing has been removed then.
    """
    before = time.time() - older_than.total_seconds()
    # What is put from here on is not looked at, so the histories are the newer of the two.
    stored = blobs.stored()
    digests = {one.sha256 for one in stored}
    workflows, roots = await mentioned_by_runs(client, digests)
    roots |= await mentioned_by_schedules(client, digests)
    roots |= {one.sha256 for one in stored if one.put_at >= before}
    kept = await asyncio.to_thread(needed, roots, digests, blobs.read)
    removed: list[StoredBlob] = []
    left: list[StoredBlob] = []
    for one in stored:
        garbage = one.sha256 not in kept and (dry_run or blobs.discard(one.sha256, put_before=before))
        (removed if garbage else left).append(one)
    if not dry_run:
        blobs.discard_unfinished(begun_before=before)
    return Collected(workflows, tuple(removed), tuple(left))


def our_workflows() -> str:
    """Return the query for all workflows whose histories name blobs.

    The product's types all begin with OUR_TYPES: a capability that is not installed here still needs its blobs.
    """
    others = ", ".join(f"'{one.workflow}'" for one in run_starters() if not one.workflow.startswith(OUR_TYPES))
    ours = f"WorkflowType STARTS_WITH '{OUR_TYPES}'"
    return f"({ours} OR WorkflowType IN ({others}))" if others else ours


def needed(roots: Iterable[str], stored: Collection[str], read: Callable[[str], bytes]) -> set[str]:
    """The stored digests that the roots lead to, through what is in the blobs; raises what `read` raises."""
    found: set[str] = set()
    waiting = {digest for digest in roots if digest in stored}
    while waiting:
        digest = waiting.pop()
        found.add(digest)
        waiting |= mentioned(read(digest), stored) - found
    return found


def mentioned(data: bytes, stored: Collection[str]) -> set[str]:
    """The stored digests that stand anywhere in the bytes, other hexadecimal digits around them or not."""
    found: set[str] = set()
    for run in _HEXADECIMAL.finditer(data):
        digits = run[0].decode()
        places = range(len(digits) - _DIGEST_CHARS + 1)
        found.update(one for place in places if (one := digits[place : place + _DIGEST_CHARS]) in stored)
    return found


async def mentioned_by_runs(
    client: Client, digests: Collection[str], of: Callable[[str], bool] = lambda _: True
) -> tuple[int, set[str]]:
    """Return the number of histories that the server has of our workflows, and the digests that stand in them.

    `of` is called with the id of each workflow, and says whether its history counts.
    Raises ConnectionFailed or KeyMismatch where any of them cannot be read.
    """
    found: set[str] = set()
    workflows = 0
    try:
        async for execution in client.list_workflows(our_workflows()):
            if not of(execution.id):
                continue
            workflows += 1
            async for data in _events(client, execution.id, execution.run_id):
                found |= mentioned(data, digests)
    except RPCError as error:
        raise ConnectionFailed(
            f"the histories of the runs cannot be read, so nothing was removed: {error}",
            next_step="Try again when the server answers.",
        ) from error
    return workflows, found


async def _events(client: Client, workflow_id: str, run_id: str) -> AsyncIterator[bytes]:
    """Every event as it was written down, and with its big values. Raises RPCError and KeyMismatch."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    try:
        async for event in handle.fetch_history_events():
            yield event.SerializeToString()
            # A value that is not here is another workshop's: those of one namespace have a blob store each.
            await put_back(event, client.data_converter)
            yield event.SerializeToString()
    except KeyMismatch as error:
        raise KeyMismatch(f"'{workflow_id}': {error.message}", key=error.key, next_step=error.next_step) from error
    except RPCError as error:
        # Deleted since it was listed: what only it referred to is garbage.
        if not is_missing(error):
            raise


async def discard_leftovers(client: Client, workshop: Path, *, older_than: timedelta, dry_run: bool = False) -> int:
    """Remove the journals of ended commits whose runs the server does not have any more; return how many.

    With `dry_run`, only count them. Raises ConnectionFailed; nothing has been removed then.
    """
    before = time.time() - older_than.total_seconds()
    left = added(lambda one: one.leftovers(workshop, before).values())
    if not left:
        return 0
    try:
        known = {execution.id async for execution in client.list_workflows(our_workflows())}
    except RPCError as error:
        raise ConnectionFailed(
            f"the runs cannot be listed, so no journal of a commit was removed: {error.message}",
            next_step="Try again when the server answers.",
        ) from error
    useless = [remove for workflow, remove in left if workflow not in known]
    for remove in useless if not dry_run else ():
        remove()
    return len(useless)


async def mentioned_by_schedules(client: Client, digests: Collection[str]) -> set[str]:
    """Return the digests that stand in what the server's schedules start.

    Raises ConnectionFailed or KeyMismatch where any of them cannot be read.
    """
    found: set[str] = set()
    try:
        names = [
            one.id
            async for one in await client.list_schedules()
            # One that is not described in the list may be ours.
            if one.schedule is None or getattr(one.schedule.action, "workflow", RUN_WORKFLOW) == RUN_WORKFLOW
        ]
        for name in names:
            found |= await _mentioned_by(client, name, digests)
    except RPCError as error:
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            return found  # a server without schedules
        raise ConnectionFailed(
            f"the schedules cannot be read, so nothing was removed: {error}",
            next_step="Try again when the server answers.",
        ) from error
    return found


async def _mentioned_by(client: Client, name: str, digests: Collection[str]) -> set[str]:
    try:
        told = (await client.get_schedule_handle(name).describe()).raw_description
    except RPCError as error:
        if is_missing(error):
            return set()  # deleted since it was listed
        raise
    found = mentioned(told.SerializeToString(), digests)
    try:
        await put_back(told, client.data_converter)
    except KeyMismatch as error:
        raise KeyMismatch(f"schedule '{name}': {error.message}", key=error.key, next_step=error.next_step) from error
    return found | mentioned(told.SerializeToString(), digests)
