"""News of an invocation for the pages that show it, as server-sent events; asks the server and holds nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from llm_do_temporal.client.views.pending_work import tail_in
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.base import WAITS_FOR_BATCH

MAX_STREAMS = 50
"""Number of pages that may follow invocations at once; others are refused."""
_WRITING_SECONDS, _IDLE_SECONDS = 0.15, 0.5
"""Pauses between two questions to the server: while a model writes, and otherwise."""
_LONGEST_SECONDS = 600
"""Longest stream: a browser comes back by itself, and a stream without a reader ends."""
_ALIVE_SECONDS = 15
"""Longest silence: proxies close silent connections."""
_SHOWN = ("text", "chars", "part", "attempt")
"""Fields of a text being written that the pages are told."""


async def news(client: Client, workflow_id: str, streams: set[object]) -> AsyncGenerator[str]:
    """Yield `tail` (the end of the answer being written), `grown` (the history has more) and `end` (the last event).

    `streams` holds a token as long as the stream has a reader.
    """
    token = object()
    streams.add(token)
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            async for event in _events(client, workflow_id):
                yield event
    except (TimeoutError, RPCError):
        return
    finally:
        streams.discard(token)


async def _events(client: Client, workflow_id: str) -> AsyncGenerator[str]:
    sent, length, silent = None, None, 0.0
    handle = client.get_workflow_handle(workflow_id)
    yield "retry: 2000\n\n"
    while True:
        description = await handle.describe()
        raw = description.raw_description
        grown = (description.run_id, description.history_length)
        tail = await tail_in(client, raw)
        data = None if tail is None else {name: getattr(tail, name) for name in _SHOWN}
        if data != sent:
            sent, silent = data, 0.0
            yield _event("tail", data)
        if grown != length:
            length, silent = grown, 0.0
            yield _event("grown", {"part": grown[0], "events": grown[1]})
        if description.status is not WorkflowExecutionStatus.RUNNING:
            yield _event("end", {})
            return
        pause = _WRITING_SECONDS if _is_writing(raw) else _IDLE_SECONDS
        await asyncio.sleep(pause)
        silent += pause
        if silent >= _ALIVE_SECONDS:
            silent = 0.0
            yield ": still here\n\n"


def _event(name: str, data: Any) -> str:
    # JSON has no line ends of its own, so a text cannot end its event and begin another.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _is_writing(description: DescribeWorkflowExecutionResponse) -> bool:
    return any(
        pending.activity_type.name == REQUEST_MODEL.name
        and pending.last_failure.application_failure_info.type != WAITS_FOR_BATCH
        for pending in description.pending_activities
    )
