"""Text that models are writing right now: the details of the heartbeats of turns that are under way.

Heartbeats are in no history. The server has those of the attempt that runs, and forgets them with it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.history.events import put_back
from llm_do_temporal.client.views.pending_work import MOST_ASKED
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.base import WAITS_FOR_BATCH
from llm_do_temporal.messages.conversation import LiveText

WAITS = "waits"
"""Part of a tail that says what a turn waits for."""


@dataclass(frozen=True)
class Tail:
    """The end of an answer that is being written, or the reason why none is yet."""

    text: str
    chars: int
    """Number of characters of the answer so far."""
    part: str
    """Kind of the part that is being written: `text`, `thinking` or `tool-call`; WAITS where nothing is written, and
    the text says what the turn waits for."""
    attempt: int
    """Number of the attempt at the turn, from 1; each begins anew."""
    said: int = 0
    """Number of characters of all texts of the answer so far."""
    part_chars: int = 0
    """Number of characters at the end of `text` that are of the part being written, as the model wrote them."""
    asked_at: datetime | None = None
    """Time of the event that has scheduled the turn; None where the worker service does not say."""


async def tails(client: Client, view: RunView) -> dict[str, Tail]:
    """Return the ends of answers being written in the run, by workflow id of the invocation; of 40 of them at most."""
    busy = [node.workflow_id for node in view.ordered if node.status == "running" and node.is_thinking][:MOST_ASKED]
    found = await asyncio.gather(*(read_tail(client, workflow_id) for workflow_id in busy))
    written = zip(busy, found, strict=True)
    return {workflow_id: tail for workflow_id, tail in written if tail is not None and tail.part != WAITS}


async def read_tail(client: Client, workflow_id: str) -> Tail | None:
    """Return the end of an answer that is being written; None where there is none, or the server does not say."""
    with suppress(RPCError):
        description = await client.get_workflow_handle(workflow_id).describe()
        return await tail_in(client, description.raw_description)
    return None


async def tail_in(client: Client, description: DescribeWorkflowExecutionResponse) -> Tail | None:
    """Return the tail in the server's description of an invocation; None where there is none."""
    for pending in description.pending_activities:
        if pending.activity_type.name == REQUEST_MODEL.name:
            return await _tail(client, pending)
    return None


async def _tail(client: Client, pending: PendingActivityInfo) -> Tail | None:
    if pending.last_failure.application_failure_info.type == WAITS_FOR_BATCH:
        await put_back(pending.last_failure, client.data_converter)
        message = pending.last_failure.message
        return Tail(message, len(message), WAITS, pending.attempt)
    payloads = pending.heartbeat_details.payloads
    if not payloads:
        return None
    try:
        (told,) = await client.data_converter.decode(payloads[:1], [LiveText])
    except (ValidationError, ValueError, RuntimeError, KeyMismatch):
        return None
    if told.attempt != pending.attempt:
        return None
    return Tail(told.text, told.chars, told.part, told.attempt, told.said, told.part_chars, told.asked_at)
