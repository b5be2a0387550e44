"""Deleting a run that was continued as new: whoever breaks off half way can begin again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.maintenance import delete as deleting
from llm_do_temporal.client.maintenance.delete import delete_run
from llm_do_temporal.errors import ConnectionFailed, UsageError

NEWEST = "third"


class Server:
    """A server with the executions of a run and of what is below it; it finds a run by the newest one only."""

    namespace = "default"

    def __init__(self, *, answers: int) -> None:
        self.left = {"below": ("run/main", 40), "first": ("run", 10), NEWEST: ("run", 30), "second": ("run", 20)}
        self.answers = answers
        """So many deletions are carried out."""
        self.workflow_service = self

    async def read_run(self, _client: Client, run: str) -> None:
        if NEWEST not in self.left:
            raise UsageError(f"there is no run '{run}'")

    async def list_workflows(self, _query: str) -> AsyncIterator[Any]:
        for run_id, (workflow_id, _) in self.left.items():
            yield SimpleNamespace(id=workflow_id, run_id=run_id)

    def get_workflow_handle(self, workflow_id: str, *, run_id: str | None) -> Any:
        found = run_id or NEWEST

        async def describe() -> Any:
            closed = datetime.fromtimestamp(self.left[found][1], UTC)
            return SimpleNamespace(id=workflow_id, run_id=found, close_time=closed)

        return SimpleNamespace(describe=describe)

    async def delete_workflow_execution(self, request: DeleteWorkflowExecutionRequest, *, retry: bool) -> None:
        if self.answers == 0:
            raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")
        assert retry
        self.answers -= 1
        del self.left[request.workflow_execution.run_id]


@pytest.mark.parametrize("answers", range(4))
async def test_what_was_broken_off_is_begun_again(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(answers=answers)
    monkeypatch.setattr(deleting, "read_run", server.read_run)
    client = cast("Client", server)
    with pytest.raises(ConnectionFailed, match="does not delete the run: gone"):
        await delete_run(client, "run", None)
    assert len(server.left) == 4 - answers
    server.answers = 4
    assert (await delete_run(client, "run", None)).histories == 4 - answers
    assert server.left == {}
