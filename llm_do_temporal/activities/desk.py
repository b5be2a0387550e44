"""The activity by which a run's history keeps news between its desk and its entry invocation."""

from __future__ import annotations

from temporalio import activity

from llm_do_temporal.messages.activities import RECORD_AT_DESK
from llm_do_temporal.messages.effects import DeskRecord


@activity.defn(name=RECORD_AT_DESK.name)
async def record_at_desk(news: DeskRecord) -> DeskRecord:
    """Return the news as it is: the result of a local activity is in the history, its input is not."""
    return news
