"""Answers of the server when it has not what it is asked for."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind

ARCHIVE = "Requested workflow history not found, may have passed retention period."


@pytest.mark.parametrize(
    ("message", "status", "missing"),
    [
        ("workflow not found for ID: x", RPCStatusCode.NOT_FOUND, True),
        (ARCHIVE, RPCStatusCode.INVALID_ARGUMENT, True),  # of the production server, whose namespace has no archive
        ("Invalid RunId.", RPCStatusCode.INVALID_ARGUMENT, False),
        ("connection refused", RPCStatusCode.UNAVAILABLE, False),
    ],
)
async def test_missing_is_told_from_wrong(message: str, status: RPCStatusCode, *, missing: bool) -> None:
    error = RPCError(message, status, b"")
    assert is_missing(error) is missing
    with pytest.raises(UsageError if missing else ConnectionFailed):
        async with translated("a-run"):
            raise error


async def test_no_run_has_an_empty_id() -> None:
    with pytest.raises(UsageError, match="there is no run ''"):
        async with translated(""):
            raise RPCError("WorkflowId is not set on request.", RPCStatusCode.INVALID_ARGUMENT, b"")


A_RUN = WorkflowExecution(workflow_id="a-run", run_id="r")


class Starved:
    """A server whose only run has a task that has just failed."""

    def __init__(self, message: str) -> None:
        self.refusal = RPCError(message, RPCStatusCode.FAILED_PRECONDITION, b"")
        self.signals: list[tuple[str, Any]] = []

    def get_workflow_handle(self, _run: str, **_execution: Any) -> Starved:
        return self

    async def execute_update(self, *_args: Any, **_options: Any) -> Any:
        raise self.refusal

    async def signal(self, name: str, message: Any) -> None:
        self.signals.append((name, message))


def client_of(server: Starved, monkeypatch: pytest.MonkeyPatch) -> LlmDoClient:
    client = LlmDoClient(cast("Any", server))
    monkeypatch.setattr(client, "_read", AsyncMock(return_value=(WorkflowExecutionInfo(execution=A_RUN), None)))
    return client


@pytest.mark.parametrize("why", ["Workflow Task in failed state", "unexpected workflow task failure"])
async def test_a_decision_that_meets_a_failed_task_is_sent_as_a_signal(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Starved(f"Unable to perform workflow execution update due to {why}")
    decision = Decision(id="a1", decision=DecisionKind.REJECT, note="no")
    assert await client_of(server, monkeypatch).decide("a-run", decision) is None
    assert server.signals == [("decide", decision)]


async def test_any_other_refusal_of_a_decision_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Starved("no updates here")
    with pytest.raises(ConnectionFailed, match="no updates here"):
        await client_of(server, monkeypatch).decide("a-run", Decision(id="a1", decision=DecisionKind.APPROVE))
    assert server.signals == []
