"""Texts of models, read while they are written."""

from __future__ import annotations

import asyncio

from llm_do_temporal.client.views.pending_work import tails
from llm_do_temporal.messages.conversation import LiveText
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

STREAMED_MODEL = "openai-chat:gpt-test"
EIGHT_WORDS = "one two three four five six seven eight"


async def live_tail(place: Place, run: str, attempt: int = 1) -> LiveText:
    """Return the text that is being written in the run's entry worker, once there is any from this attempt."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await tails(place.client.temporal, await place.client.view(run))
            tail = found.get(run)
            if tail is not None and tail.attempt == attempt:
                return tail
