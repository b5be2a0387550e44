"""Temporal servers: which one is meant, how it is reached, what its errors mean, and who asks it for work."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    PayloadLimitsConfig,
    TLSConfig,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import key_ring
from llm_do_temporal.errors import (
    ConnectionFailed,
    DecisionRefused,
    LlmDoError,
    RunCancelled,
    RunFailed,
    UsageError,
    rebuild_error,
)
from llm_do_temporal.messages.approvals import Approval, Decision, RevokeGrantInput
from llm_do_temporal.redaction.configured_keys import know_value, secrets_of
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.telemetry import tracing_interceptors

DEFAULT_NAMESPACE = "default"
CONNECT_SECONDS = 10
OUT_OF_REACH = "TMPRL1105"
"""The SDK's code of the error for a value that is kept outside where no place to look for it is known."""
_LIMITS = PayloadLimitsConfig(memo_warn_size=256 * 1024)
"""Sizes of which the SDK warns. A memo lists up to twenty questions, and the SDK's 2 KiB are passed by four."""
_OS_MESSAGE = re.compile(r'Os \{[^{}]*message: "([^"]+)"')
_EXCERPT = re.compile(r"\s*\d*\s*\|")
"""Line of the parser's message that quotes the file."""
_VALUE = re.compile(r"(invalid (?:type|value): [a-z -]+?) ?(?:\".*\"|`.*?`)(?=, expected|;|$)")
_ARCHIVE = "workflow history not found, may have passed retention period"
"""Words of a server that could have archived the history, and has not. The production server is one of those."""
_NOT_READY = "Unable to perform workflow execution update"
UPDATE_SECONDS = 8
"""Seconds for which a decision waits for the answer of a worker service before it is sent as a signal instead."""
_RECENT = timedelta(minutes=2)
"""A worker service that is there asks for work at least once a minute."""


@dataclass(frozen=True)
class Connection:
    """The connection flags of the command line; None leaves a value to the environment and the profile."""

    address: str | None = None
    namespace: str | None = None
    api_key: str | None = None
    tls: bool | None = None
    tls_cert_path: str | None = None
    tls_key_path: str | None = None
    tls_ca_path: str | None = None
    tls_server_name: str | None = None
    profile: str | None = None


def connect_config(connection: Connection) -> dict[str, Any]:
    """Arguments for `Client.connect`; without `target_host` when nothing names an address. Raises UsageError."""
    try:
        config: dict[str, Any] = dict(ClientConfig.load_client_connect_config(profile=connection.profile))
    except (RuntimeError, ValueError, OSError) as error:
        # Without the cause: it quotes the lines around the mistake, and a key may be one of them.
        raise UsageError(f"the Temporal configuration cannot be used: {_mistake(error)}") from None
    flags = {"target_host": connection.address, "namespace": connection.namespace, "api_key": connection.api_key}
    config |= {name: value for name, value in flags.items() if value}
    # The keys are taken out of all errors.
    sent: dict[str, Any] = {**(config.get("rpc_metadata") or {}), "api_key": config.get("api_key")}
    for name, value in sent.items():
        for secret in secrets_of(name, value) if isinstance(value, str) else ():
            know_value(name, secret)
    tls = _tls(connection, config.get("tls"))
    if tls is not None:
        config["tls"] = tls
    return config


def names_server(connection: Connection) -> bool:
    """Whether a flag, a variable or a profile names a server; if none does, the embedded one is used."""
    return bool(connect_config(connection).get("target_host"))


async def connect(connection: Connection, workshop: Path | None = None) -> Client:
    """A connected client, which reads and sends big values where the workshop is known, whose blob store keeps them.

    Raises ConnectionFailed when no server answers, UsageError for bad configuration.
    """
    return await _connect(connect_config(connection), workshop)


async def connect_embedded(address: str, workshop: Path | None = None) -> Client:
    """Return a client of the embedded server, whatever variables and profiles say about other servers."""
    return await _connect({"target_host": address, "namespace": DEFAULT_NAMESPACE}, workshop)


async def _connect(config: dict[str, Any], workshop: Path | None) -> Client:
    ring = key_ring()
    address = config.get("target_host") or "127.0.0.1:7233"
    config["target_host"] = address
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await Client.connect(
                data_converter=encrypting(pydantic_data_converter, ring),
                interceptors=tracing_interceptors(),
                payload_limits=_LIMITS,
                **config,
            )
    except (RuntimeError, OSError, TimeoutError) as error:
        # The transport names its own types around the system's words.
        innermost, said = _OS_MESSAGE.search(str(error)), str(error).splitlines()
        reason = innermost[1] if innermost else said[0][:200] if said else type(error).__name__
        raise ConnectionFailed(
            f"no Temporal server answers at '{address}' ({reason})",
            next_step="Start one with `llm-do-temporal dev`, or name another with --address or TEMPORAL_ADDRESS.",
        ) from error
    return client if workshop is None else with_big_payloads(client, workshop_blobs(workshop, ring))


def out_of_reach() -> UsageError:
    """Return the error for a value that is kept in a blob store which is not at hand."""
    return UsageError(
        "what was asked for is kept in the blob store of its workshop, and no workshop is known here",
        next_step="Go to the workshop's folder, or name it with --workshop DIR.",
    )


def _mistake(error: Exception) -> str:
    """Return the mistake in a configuration, and its place, without the parser's excerpt and without values."""
    if isinstance(error, OSError):
        return f"'{error.filename}': {os.strerror(error.errno or 0)}" if error.filename else str(error)
    said = "; ".join(line for line in str(error).splitlines() if line.strip() and not _EXCERPT.match(line))
    said = _VALUE.sub(r"\1", said.replace("Configuration loading error: ", ""))
    file = os.environ.get("TEMPORAL_CONFIG_FILE")
    return f"{said} (in '{file}')" if file and "TOML" in said else said


def _tls(connection: Connection, configured: TLSConfig | bool | None) -> TLSConfig | bool | None:
    """Return the TLS settings: each flag that is given, else the value that is configured."""
    paths = {
        "client_cert": connection.tls_cert_path,
        "client_private_key": connection.tls_key_path,
        "server_root_ca_cert": connection.tls_ca_path,
    }
    given: dict[str, Any] = {field: _bytes(path) for field, path in paths.items() if path is not None}
    if connection.tls_server_name is not None:
        given["domain"] = connection.tls_server_name
    if given:
        return replace(configured if isinstance(configured, TLSConfig) else TLSConfig(), **given)
    if connection.tls is False:
        return False
    return (configured or True) if connection.tls or connection.api_key else configured


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"the TLS file '{path}' cannot be read: {os.strerror(error.errno or 0)}") from error


def is_missing(error: RPCError) -> bool:
    """Return whether the server has no such workflow, or no such history any more."""
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return _ARCHIVE in error.message
    return error.status is RPCStatusCode.NOT_FOUND


def refuses_attributes(error: RPCError) -> bool:
    """Return whether the server says that the namespace does not know a search attribute."""
    return error.status is RPCStatusCode.INVALID_ARGUMENT and "search attribute" in error.message.lower()


class WorkflowNotReady(ConnectionFailed):
    """Update that the server refuses since a task of the workflow has failed just now, on a starved worker for one.

    Nothing of it was taken. The task is tried again by itself, and a signal waits for that."""


def ended_with(failure: WorkflowFailureError) -> LlmDoError:
    """Return the error that a run ended with."""
    cause = failure.cause
    if isinstance(cause, CancelledError):
        return RunCancelled("the run was cancelled")
    if isinstance(cause, TerminatedError):
        return RunCancelled(f"the run was terminated: {cause.message}")
    if isinstance(cause, ApplicationError):
        details = cast("dict[str, Any]", cause.details[0]) if cause.details else {}
        known = rebuild_error(cause.type, cause.message, details.get("next_step"))
        return known or RunFailed(cause.message)
    return RunFailed(str(cause or failure))


@asynccontextmanager
async def translated(run: str | None = None) -> AsyncGenerator[None]:
    """Translate errors of the server: to UsageError where there is no such run, else to ConnectionFailed."""
    try:
        yield
    except RuntimeError as error:
        if OUT_OF_REACH not in str(error):
            raise
        raise out_of_reach() from error
    except RPCError as error:
        # No run has an empty id, for which the server has other words.
        if run is not None and (not run or is_missing(error)):
            raise UsageError(
                f"there is no run '{run}'", next_step="`llm-do-temporal list` shows the runs of this server."
            ) from error
        if error.status is RPCStatusCode.UNAVAILABLE:
            raise ConnectionFailed(f"the Temporal server does not answer: {error}") from error
        if _NOT_READY in error.message:
            raise WorkflowNotReady(f"the run was not ready: {error}") from error
        raise ConnectionFailed(f"the Temporal server refused: {error}") from error


async def update_read(client: Client, read: WorkflowExecutionInfo, update: str, message: Decision) -> Approval | None:
    """Return the answer of the desk to an update; None where no worker service answers.

    Raises DecisionRefused, and UsageError where the run is no longer there.
    """
    run = read.execution.workflow_id
    handle = client.get_workflow_handle(run, first_execution_run_id=read.first_run_id or None)
    try:
        async with translated(run):
            return await handle.execute_update(
                update, message, result_type=Approval, rpc_timeout=timedelta(seconds=UPDATE_SECONDS)
            )
    except WorkflowUpdateFailedError as failure:
        text = str(failure.cause or failure)
        if isinstance(failure.cause, ApplicationError):
            text = failure.cause.message
        raise DecisionRefused(text) from failure
    except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError, WorkflowNotReady):
        return None


async def signal_read(
    client: Client, read: WorkflowExecutionInfo, signal: str, message: Decision | RevokeGrantInput
) -> None:
    """Signal the run. Raises UsageError where it is no longer there.

    A signal names one part of a run that was continued as new; where there is a newer one, it goes there.
    """
    run, part = read.execution.workflow_id, read.execution.run_id
    async with translated(run):
        while True:
            try:
                await client.get_workflow_handle(run, run_id=part).signal(signal, message)
            except RPCError as error:
                now = (await client.get_workflow_handle(run).describe()).raw_info if is_missing(error) else read
                if now.execution.run_id == part or now.first_run_id != read.first_run_id:
                    raise
                part = now.execution.run_id
            else:
                return


async def recent_pollers(client: Client, queue: str, kind: TaskQueueType.ValueType) -> set[str]:
    """Return the identities of the processes that asked for such work in the last two minutes. Raises RPCError."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
    )
    oldest = datetime.now(UTC) - _RECENT
    return {one.identity for one in answer.pollers if one.last_access_time.ToDatetime(UTC) > oldest}


def no_poller_message(queue: str, served: timedelta | None = None) -> str:
    """Return the message for a task queue without pollers; `served` is the time for which the server has been there.

    None: it is not known, and long enough."""
    if served is None or served >= _RECENT:
        return f"nobody has asked for work at the task queue '{queue}' for two minutes"
    begun = f"since the server began, {served.total_seconds():.0f} s ago; .llm-do/service.log may say why"
    return f"nobody has asked for work at the task queue '{queue}' {begun}"
