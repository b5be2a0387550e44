"""How many approvals wait, as a service without the keys of all runs counts them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, PENDING_MEMO, WORKER_ATTRIBUTE
from worker_service.metrics import UNKNOWN, count_pending, pause_after


class Hidden:
    """A run that somebody else serves, and that two calls of wait for a person."""

    typed_search_attributes = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_int(PENDING_ATTRIBUTE), 2),
            SearchAttributePair(SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE), "theirs"),
        ]
    )

    async def memo(self) -> dict[str, Any]:
        """See WorkflowExecution."""
        raise KeyMismatch("it is encrypted with the key 'theirs'")


class Open(Hidden):
    """One that can be read, where two workers that a model made wait for a person."""

    async def memo(self) -> dict[str, Any]:
        """See WorkflowExecution."""
        return {PENDING_MEMO: [question(name) for name in ("helper-1", "helper-2")]}


def question(worker: str) -> dict[str, Any]:
    """An entry of the memo."""
    place = {"invocation": "job/main", "key": "1", "path": "main", "tool": "t", "summary": "s", "id": worker}
    return {**place, "worker": worker, "generated": True, "model": "m", "asked_at": "2026-01-01T00:00:00Z"}


@dataclass
class Server:
    """Lists one run."""

    run: Hidden

    async def list_workflows(self, _query: str) -> AsyncIterator[Hidden]:
        """See Client."""
        yield self.run


@pytest.mark.parametrize(
    ("run", "counted"), [(Hidden(), ("theirs", UNKNOWN)), (Open(), ("workers/generated", "m"))], ids=["hidden", "made"]
)
async def test_what_cannot_be_read_or_was_named_by_a_model_is_counted_under_a_name_that_is_known(
    run: Hidden, counted: tuple[str, str]
) -> None:
    assert await count_pending(cast("Client", Server(run))) == {counted: 2}


@pytest.mark.parametrize(("took", "pause"), [(0.0, 15.0), (0.5, 15.0), (0.75, 15.0), (3.0, 60.0), (30.0, 300.0)])
def test_counting_that_takes_long_is_done_less_often(took: float, pause: float) -> None:
    assert pause_after(took) == pause
