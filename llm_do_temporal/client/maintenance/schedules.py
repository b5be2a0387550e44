"""Blobs that schedules refer to: files that were kept when they were made, and starts too big for the server.

No history names them before a run has begun, so who removes blobs asks here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connection.errors import is_missing
from llm_do_temporal.client.history.events import put_back
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch
from llm_do_temporal.messages.base import RUN_WORKFLOW

Mentioned = Callable[[bytes, Collection[str]], set[str]]
"""Finds which of the digests stand anywhere in the bytes."""


async def mentioned_by_schedules(client: Client, digests: Collection[str], mentioned: Mentioned) -> set[str]:
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
            found |= await _mentioned_by(client, name, digests, mentioned)
    except RPCError as error:
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            return found  # a server without schedules
        raise ConnectionFailed(
            f"the schedules cannot be read, so nothing was removed: {error}",
            next_step="Try again when the server answers.",
        ) from error
    return found


async def _mentioned_by(client: Client, name: str, digests: Collection[str], mentioned: Mentioned) -> set[str]:
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
