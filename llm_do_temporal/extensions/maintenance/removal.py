"""Removing what nothing needs any more: blobs, journals of commits, and runs that people delete.

A blob is needed when its digest is anywhere in the history of a run that the server still has, open or not, in what a
schedule starts, or in a blob that is needed. Nothing is read but 64 hexadecimal digits, so nothing depends on what kind
of reference it is. Nothing is removed before all histories were read.

Deleting a run keeps an order: nothing gets lost that another run needs, and after a crash at any point it can be begun
again, or `gc` finds the rest. Whatever a fork or a later attempt reuses was copied before it started, so none of them
keeps a run from being deleted: people are told who has its words, as the memos say. No run is stopped by itself.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.history.events import put_back
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.client.views.server_list import NEWEST_EXECUTION, ended_at, every_part, read_begun
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch, LlmDoError
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


_QUERY = f"WorkflowType = '{RUN_WORKFLOW}' AND {NEWEST_EXECUTION}"
PATIENCE_SECONDS = 60
"""Seconds for which invocations that were told to end are waited for."""
SETTLE_SECONDS = 10.0
"""Seconds from a run's end until all its parts are listed, and every run that was about to start with its blobs."""
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Borrower:
    """Run that reuses answers of another one."""

    run: str
    of: str
    """Run that it was started from."""
    is_open: bool


@dataclass(frozen=True)
class Borrowers:
    """Borrowers of one run."""

    known: tuple[Borrower, ...]
    """Each after the one that it borrows from."""
    locked: int = 0
    """Runs of the server whose memo cannot be read with the keys here: any of them may be one."""


async def read_borrowers(client: Client, run: str) -> Borrowers:
    """Return the runs that borrow from this one, directly or from one another. Raises ConnectionFailed."""
    listed: dict[str, Borrower] = {}
    locked = 0
    async with translated():
        async for part in every_part(client, _QUERY):
            for info in part.found:
                try:
                    begun = await read_begun(info, client.data_converter)
                except KeyMismatch:
                    locked += 1
                    continue
                if begun.fork_of:
                    name = info.execution.workflow_id
                    listed[name] = Borrower(name, begun.fork_of, ended_at(info) is None)
    return Borrowers(borrowers_of(run, listed), locked)


def borrowers_of(run: str, listed: Mapping[str, Borrower]) -> tuple[Borrower, ...]:
    """Return those of `listed`, by their ids, that borrow from the run, each after the one that it borrows from.

    The run itself is none, whatever its memo says.
    """
    found: dict[str, Borrower] = {}
    lenders = [run]
    for lender in lenders:
        below = [one for one in listed.values() if one.of == lender and one.run != run and one.run not in found]
        for one in sorted(below, key=lambda one: one.run):
            found[one.run] = one
            lenders.append(one.run)
    return tuple(found.values())


@dataclass(frozen=True)
class Deleted:
    """Histories and blobs that were removed."""

    histories: int
    """Number of histories; the server has taken the order, and carries it out within a minute."""
    blobs: tuple[StoredBlob, ...]


@dataclass(frozen=True)
class _Part:
    """History of a run, or of one of its invocations."""

    id: str
    run_id: str
    closed_at: float | None
    """Time in seconds since 1970; None while it is open."""


async def open_parts(client: Client, run: str) -> list[str]:
    """The workflows of a run that have not ended, by their ids. Raises ConnectionFailed."""
    return _open_of(await _parts(client, run))


async def delete_run(client: Client, run: str, blobs: ManagedBlobStore | None) -> Deleted:
    """Remove a run that has ended or is about to, and all that is below it; `blobs` None: they stay where they are.

    All is read before anything goes. Raises UsageError where there is no such run, LlmDoError for one that does not
    end, KeyMismatch, ConnectionFailed, and EffectFailed for a blob that cannot be read. Nothing has been removed then,
    unless the server or the blob store stopped answering half way: then `gc` removes the blobs that are left.
    """
    await read_run(client, run)
    await settle(_end_of(await _ended(client, run)))
    found = await _ended(client, run)
    # Whoever puts a blob again after that needs it, though no history may say so yet.
    ended = _end_of(found)
    useless = [] if blobs is None else await _needed_alone(client, run, blobs, ended)
    # The run's newest execution goes last: without it the run cannot be found again.
    for part in sorted(found, key=lambda part: (part.id == run, part.closed_at or 0.0)):
        request = DeleteWorkflowExecutionRequest(
            namespace=client.namespace, workflow_execution=ExecutionId(workflow_id=part.id, run_id=part.run_id)
        )
        try:
            await client.workflow_service.delete_workflow_execution(request, retry=True)
        except RPCError as error:
            if not is_missing(error):
                raise _refused(error) from error
    gone = [one for one in useless if blobs is not None and blobs.discard(one.sha256, put_before=ended)]
    return Deleted(len(found), tuple(gone))


async def settle(ended: float) -> None:
    """Wait until SETTLE_SECONDS have passed since then, in seconds since 1970."""
    # Another machine's clock says when it was.
    await asyncio.sleep(min(max(0, ended + SETTLE_SECONDS - time.time()), SETTLE_SECONDS))


def _end_of(found: Sequence[_Part]) -> float:
    return max((part.closed_at or 0.0 for part in found), default=0.0)


async def _ended(client: Client, run: str) -> list[_Part]:
    """Return all parts of the run, once it has ended. Raises LlmDoError where it does not end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while still := _open_of(found := await _parts(client, run)):
        if time.monotonic() > deadline:
            raise LlmDoError(
                f"run '{run}' has not ended: {', '.join(still[:5])}; nothing was deleted",
                next_step="Cancel it with --cancel. Where no worker service runs: `temporal workflow terminate -w ID`.",
            )
        await asyncio.sleep(_POLL_SECONDS)
    return found


async def _needed_alone(client: Client, run: str, blobs: ManagedBlobStore, ended: float) -> list[StoredBlob]:
    """The blobs that this run leads to and no other one does."""
    stored = {one.sha256: one for one in await asyncio.to_thread(blobs.stored)}
    _, roots = await mentioned_by_runs(client, stored, lambda each: _is_of(each, run))
    theirs = await asyncio.to_thread(needed, roots, stored, blobs.read)
    if not theirs:
        return []
    _, roots = await mentioned_by_runs(client, stored, lambda each: not _is_of(each, run))
    roots |= await mentioned_by_schedules(client, stored)
    lately = max(ended, time.time() - SAFETY_AGE.total_seconds())
    roots |= {one.sha256 for one in stored.values() if one.put_at >= lately}
    others = await asyncio.to_thread(needed, roots, stored, blobs.read)
    return [stored[sha256] for sha256 in sorted(theirs - others)]


async def _parts(client: Client, run: str) -> list[_Part]:
    """The run and its invocations, every run of their chains, as they are now; the list alone would be a bit late."""
    query = f"{our_workflows()} AND (WorkflowId = '{quoted(run)}' OR WorkflowId STARTS_WITH '{quoted(run)}/')"
    try:
        listed = {one.run_id: one.id async for one in client.list_workflows(query)}
        found = [await _part(client, run, None), *[await _part(client, listed[each], each) for each in listed]]
    except RPCError as error:
        raise _refused(error) from error
    return list({part.run_id: part for part in found if part is not None}.values())


async def _part(client: Client, workflow_id: str, run_id: str | None) -> _Part | None:
    """Return the part; None where it is gone. Raises RPCError."""
    try:
        told = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    except RPCError as error:
        if is_missing(error):
            return None
        raise
    closed = None if told.close_time is None else told.close_time.timestamp()
    return _Part(told.id, told.run_id, closed)


def _open_of(found: Sequence[_Part]) -> list[str]:
    return sorted({part.id for part in found if part.closed_at is None})


def _is_of(workflow_id: str, run: str) -> bool:
    return workflow_id == run or workflow_id.startswith(f"{run}/")


def _refused(error: RPCError) -> ConnectionFailed:
    return ConnectionFailed(
        f"the server does not delete the run: {error.message}", next_step="Try again when the server answers."
    )
