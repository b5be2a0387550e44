"""The server's list in parts: all of them together are the list, and nothing is asked for in vain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from llm_do_temporal.client.views.server_list import attribute_of, every_part
from llm_do_temporal.messages.runs import RunMemo
from tests.support.runs.run_server import RunServer

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def server() -> RunServer:
    """More runs than the server lists in one answer."""
    server = RunServer()
    for number in range(1_200):
        await server.put(f"run-{number}", "Completed", RunMemo(worker="w"), began=NOW, ended=NOW + timedelta(0, number))
    return server


async def test_all_parts_together_are_the_list(server: RunServer) -> None:
    parts = [part async for part in every_part(cast("Any", server), "", first=100)]
    assert [(part.token, len(part.found)) for part in parts] == [(b"", 100), (b"100", 1_000), (b"1100", 100)]
    found = [info.execution.workflow_id for part in parts for info in part.found]
    assert found == [f"run-{number}" for number in range(1_199, -1, -1)]


async def test_a_part_is_asked_for_when_somebody_wants_it(server: RunServer) -> None:
    parts = aiter(every_part(cast("Any", server), ""))
    await anext(parts)
    assert len(server.queries) == 1


def test_an_attribute_that_a_workflow_has_not_is_none() -> None:
    info = WorkflowExecutionInfo()
    info.search_attributes.indexed_fields["n"].data = b"7"
    info.search_attributes.indexed_fields["empty"].data = b""
    assert [attribute_of(info, name) for name in ("n", "empty", "other")] == [7, None, None]
