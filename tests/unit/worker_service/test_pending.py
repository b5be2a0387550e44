"""How many approvals wait, as a service without the keys of all runs counts them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest
from temporalio.client import Client

from llm_do_temporal.encryption.keys import Key
from llm_do_temporal.messages.runs import PendingApprovalMemo
from tests.support.runs.list_server import KEY, ListServer
from worker_service.metrics import UNKNOWN, count_pending, pause_after


def question(worker: str) -> PendingApprovalMemo:
    """An entry of the memo, of a worker that a model made."""
    return PendingApprovalMemo(
        id=worker,
        invocation="job/main",
        key="1",
        worker=worker,
        path="main",
        tool="t",
        summary="s",
        asked_at=datetime(2026, 1, 1, tzinfo=UTC),
        generated=True,
        model="m",
    )


@pytest.mark.parametrize(
    ("keys", "counted"), [([], ("boss", UNKNOWN)), ([KEY], ("workers/generated", "m"))], ids=["hidden", "made"]
)
async def test_what_cannot_be_read_or_was_named_by_a_model_is_counted_under_a_name_that_is_known(
    keys: list[Key], counted: tuple[str, str]
) -> None:
    server = ListServer(keys)
    await server.put("job", [question(name) for name in ("helper-1", "helper-2")])
    assert await count_pending(cast("Client", server)) == {counted: 2}


@pytest.mark.parametrize(("took", "pause"), [(0.0, 15.0), (0.5, 15.0), (0.75, 15.0), (3.0, 60.0), (30.0, 300.0)])
def test_counting_that_takes_long_is_done_less_often(took: float, pause: float) -> None:
    assert pause_after(took) == pause
