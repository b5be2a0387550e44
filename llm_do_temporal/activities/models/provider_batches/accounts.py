"""Batches of an account at a provider: found again where the answer to their creation was lost.

The library creates batches and reads them; it has no way to list them, which is done here, with each provider's own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models import Model
from pydantic_ai.models._batch_codec import (
    BatchJobError,  # pyright: ignore[reportPrivateUsage] - what is raised for a batch that ran nothing
)
from pydantic_ai.models.batch import Batch
from pydantic_ai.models.wrapper import WrapperModel

from llm_do_temporal.messages.batches import lines_of
from llm_do_temporal.messages.conversation import BatchedTurn

EARLIEST = timedelta(minutes=30)
"""Longest time for which a creation was under way before it was given up, and the provider's clock is behind ours."""
LATEST = timedelta(minutes=30)
"""Longest time from handing a request over to the creation of its batch, with the largest upload."""
SETTLED = timedelta(minutes=1)
"""Age of a request from which a batch that its provider does not list was never made: a list may lag behind."""
_MOST_LISTED = 1_000
_OF_THE_LIBRARY = "pydantic-ai-batch"
"""Name that the library gives to batches at Google."""


class BatchNotSeen(Exception):
    """Request of which cannot be told yet whether it is in one of the account's batches."""


async def find(model: Model, turn: BatchedTurn, now: datetime) -> Batch | None:
    """Return the batch that has a request; None where there is none, and the request was never sent.

    Raises BatchNotSeen while that cannot be told, ModelAPIError where the provider does not answer.
    """
    assert turn.sent_at is not None
    undecided = False
    try:
        async for listed in _listed(_unwrapped(model), turn.group):
            if turn.sent_at - EARLIEST <= listed.created_at <= turn.sent_at + LATEST:
                batch = await model.batch_status(listed)
                held = await _holds(model, batch, turn.custom_id)
                if held:
                    return batch
                undecided |= held is None
    except ModelAPIError:
        raise
    except Exception as error:
        # Each provider's library has exceptions of its own for a list that does not come.
        raise ModelAPIError(model.model_name, f"its batches could not be listed: {error}") from error
    if undecided or now - turn.sent_at < SETTLED:
        raise BatchNotSeen
    return None


async def _holds(model: Model, batch: Batch, custom_id: str) -> bool | None:
    """Return whether a batch has a request; None where the provider says so only once the batch has ended."""
    input_file = (batch.provider_details or {}).get("input_file_id")
    if batch.status != "ended" and input_file is None:
        return None
    if batch.status != "ended":
        text: str = (await cast("Any", _unwrapped(model)).client.files.content(input_file)).text
        return any(json.loads(line)["custom_id"] == custom_id for _, line in lines_of(text))
    try:
        return any(result.custom_id == custom_id for result in await model.batch_results(batch))
    except BatchJobError:
        return False  # it ran nothing, so nothing of it is paid


def _unwrapped(model: Model) -> Model:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model


async def _listed(model: Model, group: str) -> AsyncIterator[Batch]:
    """Yield the account's newest batches, as far as their lists tell."""
    client = cast("Any", model).client
    listed = 0
    kind = type(model).__name__
    if kind == "OpenAIResponsesModel":
        pages = client.batches.list(limit=100)
    elif kind == "AnthropicModel":
        pages = client.beta.messages.batches.list(limit=100)
    else:
        pages = await client.aio.batches.list(config={"page_size": 100})
    async for one in pages:
        listed += 1
        if listed > _MOST_LISTED:
            return
        if getattr(one, "display_name", _OF_THE_LIBRARY) != _OF_THE_LIBRARY:
            continue
        created = _time(getattr(one, "created_at", None) or getattr(one, "create_time", None))
        yield Batch(
            id=getattr(one, "id", None) or one.name,
            model_name=model.model_name,
            provider_name=model.system,
            group=group,
            status="in_progress",
            created_at=created,
            request_count=0,
        )


def _time(given: Any) -> datetime:
    return datetime.fromtimestamp(given, tz=UTC) if isinstance(given, int | float) else given
