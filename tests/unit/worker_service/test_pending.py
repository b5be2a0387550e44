"""How many approvals wait, as a service without the keys of all runs counts them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages import PENDING_ATTRIBUTE, WORKER_ATTRIBUTE
from worker_service.metrics import UNKNOWN, count_pending


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


class Server:
    """Lists it."""

    async def list_workflows(self, _query: str) -> AsyncIterator[Hidden]:
        """See Client."""
        yield Hidden()


async def test_what_cannot_be_read_is_counted_for_its_worker() -> None:
    assert await count_pending(cast("Client", Server())) == {("theirs", UNKNOWN): 2}
