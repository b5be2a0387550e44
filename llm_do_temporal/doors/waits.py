"""Waiting for the next news of a run that concern a person: its end, or a question that has not been seen."""

from __future__ import annotations

from collections.abc import Collection

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.events import ENDS, read_chain
from llm_do_temporal.client.history.questions import news_at_desk

MOST_SEEN = 100
"""Most questions that one request for a wait may name."""
_UNWRITTEN = 2
"""Most events that the server counts and has not written: WorkflowTaskScheduled and WorkflowTaskStarted.

A speculative workflow task, which brings an update, is dropped with them where the update is refused; a transient one,
a further attempt after a failure, has them written once it is completed.
"""


async def wait_for_news(client: LlmDoClient, run: str, *, seen: Collection[str] = ()) -> None:
    """Return once the run has ended, or asks a question whose id is not among `seen`. Raises UsageError, KeyMismatch.

    Reads the history of the run alone, and not of what it has delegated: every question reaches its desk.
    """
    async with translated(run):
        description = await client.temporal.get_workflow_handle(run).describe()
        has_caught_up = is_first = False
        async for event in read_chain(client.temporal, run, description.run_id, wait=True):
            if event.event_type in ENDS:
                return
            if not has_caught_up:
                has_caught_up = is_first = event.event_id >= description.history_length - _UNWRITTEN
            if has_caught_up and (is_first or news_at_desk(event) is not None):
                is_first = False
                if any(question.id not in seen for question in await client.approvals(run)):
                    return
