"""The activity by which a run's history keeps news between its desk and its entry invocation."""

from __future__ import annotations

from temporalio import activity
from temporalio.common import RawValue

from llm_do_temporal.messages.activities import RECORD_AT_DESK


@activity.defn(name=RECORD_AT_DESK.name)
async def record_at_desk(news: RawValue) -> RawValue:
    """Return the news, a DeskRecord as it is: the result of a local activity is in the history, its input is not."""
    return news
