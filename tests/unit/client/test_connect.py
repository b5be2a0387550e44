"""The connection: what flags, variables and profiles say of it, and answers of a server that lacks what it is asked."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from pydantic import TypeAdapter
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client, TLSConfig
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import (
    Connection,
    connect,
    connect_config,
    connect_embedded,
    is_missing,
    translated,
)
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind, RequestApprovalInput
from llm_do_temporal.messages.runs import Batch, BatchItem, PendingApprovalMemo, StartRunInput
from llm_do_temporal.workflows.run.desk import pending_memo

NOW = datetime(2026, 1, 2, tzinfo=UTC)

CONFIGURED = TLSConfig(server_root_ca_cert=b"ca", domain="temporal", client_cert=b"cert", client_private_key=b"key")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("TEMPORAL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    for name in ("ca", "cert", "key", "other"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)


def of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SERVER_CA_CERT_PATH": "ca", "CLIENT_CERT_PATH": "cert", "CLIENT_KEY_PATH": "key"}.items():
        monkeypatch.setenv(f"TEMPORAL_TLS_{name}", value)
    monkeypatch.setenv("TEMPORAL_TLS_SERVER_NAME", "temporal")


def of_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("temporal.toml").write_text(
        '[profile.default.tls]\nserver_ca_cert_path = "ca"\nclient_cert_path = "cert"\nclient_key_path = "key"\n'
        'server_name = "temporal"\n'
    )


@pytest.mark.parametrize("configure", [of_variables, of_a_profile])
@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        ({}, {}),
        ({"tls": True}, {}),
        ({"api_key": "k"}, {}),
        ({"tls_server_name": "other"}, {"domain": "other"}),
        ({"tls_ca_path": "other"}, {"server_root_ca_cert": b"other"}),
        (
            {"tls_cert_path": "other", "tls_key_path": "other"},
            {"client_cert": b"other", "client_private_key": b"other"},
        ),
    ],
    ids=str,
)
def test_a_flag_replaces_what_it_names_alone(
    configure: Any, flags: dict[str, Any], changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch)
    assert connect_config(Connection(**flags))["tls"] == TLSConfig(**{**vars(CONFIGURED), **changed})


@pytest.mark.parametrize(
    ("flags", "tls"),
    [
        ({}, None),
        ({"tls": True}, True),
        ({"tls": False}, False),
        ({"api_key": "k"}, True),
        ({"api_key": "k", "tls": False}, False),
        ({"tls_server_name": "other"}, TLSConfig(domain="other")),
    ],
    ids=str,
)
def test_where_nothing_is_configured_flags_say_it_all(flags: dict[str, Any], tls: TLSConfig | bool | None) -> None:
    assert connect_config(Connection(**flags)).get("tls") == tls


def test_tls_that_is_configured_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    of_variables(monkeypatch)
    assert connect_config(Connection(tls=False))["tls"] is False


async def test_the_memo_of_a_run_with_many_questions_is_nothing_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    async def noted(**config: Any) -> None:
        given.update(config)

    monkeypatch.setattr(Client, "connect", noted)
    await connect(Connection("127.0.0.1:1"))
    question = RequestApprovalInput(
        key="k" * 60,
        invocation="i" * 255,
        worker="w" * 60,
        path="main/item-1/" + "p" * 200,
        item="n" * 1_000,
        tool="t" * 60,
        args={f"argument {number}": "x" * 10_000 for number in range(50)},
        capabilities=(),
        summary="s" * 10_000,
    )
    asked = tuple(Approval(id=f"a{number}", request=question, asked_at=NOW) for number in range(50))
    start = StartRunInput(worker="w", batch=Batch(items=(BatchItem(name="n", prompt="t" * 1_000),)))
    memo = TypeAdapter(list[PendingApprovalMemo]).dump_json(pending_memo(asked, start))
    assert 2_048 < len(memo) < given["payload_limits"].memo_warn_size


async def test_who_is_told_to_end_in_the_moment_of_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(**_config: Any) -> object:
        asyncio.get_running_loop().call_soon(serving.cancel)
        return object()

    async def serve() -> None:
        await connect_embedded("127.0.0.1:1")
        await asyncio.Event().wait()

    monkeypatch.setattr(Client, "connect", connected)
    serving = asyncio.create_task(serve())
    done, _ = await asyncio.wait([serving], timeout=30)
    serving.cancel()
    assert done == {serving}
    assert serving.cancelled()


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
