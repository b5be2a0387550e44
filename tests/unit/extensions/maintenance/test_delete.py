"""Deleting runs: what is left of a run, who borrows from it, and what stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.errors import ConnectionFailed, KeyMismatch, UsageError
from llm_do_temporal.extensions.maintenance import removal
from llm_do_temporal.extensions.maintenance.removal import Borrower, Borrowers, borrowers_of, delete_run, read_borrowers
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from tests.support.runs.run_server import RunServer

NEWEST = "third"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


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
    monkeypatch.setattr(removal, "read_run", server.read_run)
    client = cast("Client", server)
    with pytest.raises(ConnectionFailed, match="does not delete the run: gone"):
        await delete_run(client, "run", None)
    assert len(server.left) == 4 - answers
    server.answers = 4
    assert (await delete_run(client, "run", None)).histories == 4 - answers
    assert server.left == {}


def started(run: str, of: str) -> tuple[str, Borrower]:
    return run, Borrower(run, of, is_open=False)


def test_borrowers_of_borrowers_come_after_those_they_borrow_from() -> None:
    listed = dict([started("a", "c"), started("b", "run"), started("c", "run"), started("d", "a"), started("e", "x")])
    assert [one.run for one in borrowers_of("run", listed)] == ["b", "c", "a", "d"]


def test_a_memo_that_says_nonsense_makes_no_circle() -> None:
    listed = dict([started("run", "run"), started("a", "run"), started("b", "b"), started("run", "a")])
    assert [one.run for one in borrowers_of("run", listed)] == ["a"]


def test_a_run_that_starts_with_a_record_says_whose_it_is() -> None:
    assert RunMemo.of(StartRunInput(worker="w", copies_of="run")).fork_of == "run"
    assert "fork_of" not in RunMemo.of(StartRunInput(worker="w")).model_dump()


async def test_the_memos_of_the_newest_executions_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    server = RunServer()
    await server.put("open", "Running", RunMemo(worker="w", fork_of="run"), began=NOW)
    await server.put("ended", "Failed", RunMemo(worker="w", fork_of="run"), began=NOW, ended=NOW)
    await server.put("other", "Completed", RunMemo(worker="w"), began=NOW, ended=NOW)
    await server.put("sealed", "Completed", RunMemo(worker="w", fork_of="run"), began=NOW, ended=NOW)
    read = removal.read_begun

    async def without_its_key(info: Any, converter: Any) -> RunMemo:
        if info.execution.workflow_id == "sealed":
            raise KeyMismatch("no key", key="old")
        return await read(info, converter)

    monkeypatch.setattr(removal, "read_begun", without_its_key)
    found = await read_borrowers(cast("Any", server), "run")
    assert found == Borrowers((Borrower("ended", "run", False), Borrower("open", "run", True)), locked=1)
    assert "ExecutionStatus != 'ContinuedAsNew'" in server.queries[0]
