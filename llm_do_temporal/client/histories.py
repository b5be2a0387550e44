"""Reading the history of one workflow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode


async def read_events(handle: WorkflowHandle[Any, Any], *, wait: bool) -> AsyncIterator[HistoryEvent]:
    """Every event once, the first one first; waiting, until the workflow has closed. Raises RPCError.

    The server tells of a workflow task that is tried again before that is written down. When something else takes
    its place, as it does after a worker service was killed, the server breaks off; reading then begins anew.
    """
    told: dict[int, tuple[int, int]] = {}
    while True:
        try:
            async for event in handle.fetch_history_events(wait_new_event=wait):
                what = (event.event_type, event.event_time.ToNanoseconds())
                if told.get(event.event_id) != what:
                    told[event.event_id] = what
                    yield event
        except RPCError as error:
            if not _is_superseded(error):
                raise
        else:
            return


def _is_superseded(error: RPCError) -> bool:
    """Whether the part of the history that was read last is no longer part of it."""
    return error.status is RPCStatusCode.INVALID_ARGUMENT and "branch token" in error.message
