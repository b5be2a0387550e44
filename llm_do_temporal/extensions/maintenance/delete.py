"""Deleting a run: its histories, those of its invocations, and the blobs that no other run needs.

Owns the order: nothing gets lost that another run needs, and after a crash at any point it can be begun again, or
`gc` finds the rest. Whatever a fork or a later attempt reuses was copied before it started, so none of them keeps a run
from being deleted: people are told who has its words, as the memos say. Must not stop a run by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.client.views.server_list import NEWEST_EXECUTION, ended_at, every_part, read_begun
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch, LlmDoError
from llm_do_temporal.extensions.maintenance.gc import (
    SAFETY_AGE,
    mentioned_by_runs,
    mentioned_by_schedules,
    needed,
    our_workflows,
)
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.storage.blobs import ManagedBlobStore, StoredBlob

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
