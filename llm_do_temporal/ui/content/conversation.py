"""Conversations as the page shows them: entries that belong together, lines for what is folded, news as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from llm_do_temporal.client.views.pending_work import tail_in
from llm_do_temporal.client.views.transcripts import Entry
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.messages.base import WAITS_FOR_BATCH

_FIRST = {"result": "call", "decision": "question"}
MAX_CHARS = 140
_VALUE_CHARS = 60
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


class EntryPairs:
    """EntryPairs among the entries of a page."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._second: dict[int, Entry] = {}
        self._first: dict[int, Entry] = {}
        last: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            if entry.kind in _FIRST.values():
                last[entry.kind, entry.call] = entry
            elif entry.kind in _FIRST:
                first = last.pop((_FIRST[entry.kind], entry.call), None)
                if first is not None:
                    self._second[id(first)], self._first[id(entry)] = entry, first

    def second(self, entry: Entry) -> Entry | None:
        """Return the result of a call, or the decision on a question; None where it is not on the page."""
        return self._second.get(id(entry))

    def first(self, entry: Entry) -> Entry | None:
        """Return the call of a result, or the question of a decision, which shows it; None: it stands by itself."""
        return self._first.get(id(entry))


def call_line(args: Any) -> str:
    """Return the arguments of a call on one line, each with its name; long ones are cut."""
    if not isinstance(args, Mapping):
        return "" if args is None else _cut(_one(args), MAX_CHARS)
    named = cast("Mapping[str, Any]", args)
    return _cut(" · ".join(f"{name}: {_cut(_one(value), _VALUE_CHARS)}" for name, value in named.items()), MAX_CHARS)


def result_line(value: Any) -> str:
    """Return the beginning of a result: the first line of a text, else JSON."""
    return _cut(_one(value), MAX_CHARS)


def _one(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    lines = value.strip().splitlines()
    return f"{lines[0].rstrip()} …" if len(lines) > 1 else "".join(lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


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
