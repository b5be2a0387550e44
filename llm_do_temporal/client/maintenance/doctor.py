"""Findings of `doctor` about the server, its namespace and its worker service, and about unfinished commits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.connections import (
    Connection,
    connect,
    connect_config,
    connect_embedded,
    no_poller_message,
    recent_pollers,
)
from llm_do_temporal.client.embedded.processes import search_temporal
from llm_do_temporal.client.embedded.server import logins_in_words, other_logins, running_host
from llm_do_temporal.definitions.workshop import own_queues
from llm_do_temporal.errors import ConnectionFailed, EffectFailed, LlmDoError
from llm_do_temporal.extensions.review.commit import CommitJournal, Disk
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, STATE_ATTRIBUTE, WORKER_ATTRIBUTE
from llm_do_temporal.policy.queues import ROLES, polled_queues
from llm_do_temporal.sandbox.programs import InstalledProgram

_ATTRIBUTES = {STATE_ATTRIBUTE: "Keyword", PENDING_ATTRIBUTE: "Int", WORKER_ATTRIBUTE: "Keyword"}
_NAMED = 3
"""Most commits that one finding names."""


@dataclass(frozen=True)
class Finding:
    """Outcome of one check of `doctor`."""

    what: str
    status: Literal["ok", "warning", "error"]
    message: str
    next_step: str | None = None
    exit_code: int = 1
    """Exit code of `doctor`, where the finding is an error."""

    def as_json(self) -> dict[str, Any]:
        """The finding as `doctor --json` has it."""
        return {"what": self.what, "status": self.status, "message": self.message, "next": self.next_step}


async def examine_server(connection: Connection, workshop: Path | None, queue: str) -> list[Finding]:
    """Return the findings about the server that commands would use; starts none. Raises UsageError.

    `workshop` may be None where the connection names a server; `queue` is the task queue of the worker service.
    """
    named_server = connect_config(connection).get("target_host")
    own: str | None = None
    try:
        if named_server:
            found = f"{named_server}, named by {_origin(connection)}"
            client = await connect(connection)
        else:
            if workshop is None:
                return []
            host = running_host(workshop)
            if host is None:
                return [*_not_running(), _accounts("127.0.0.1")]
            own = host.address
            found = f"{host.address}, the workshop's own (process {host.pid})"
            client = await connect_embedded(host.address)
    except LlmDoError as error:
        origin = f"; it is named by {_origin(connection)}" if named_server else ""
        code = error.exit_code if isinstance(error, ConnectionFailed) else 1
        return [_error("Temporal", f"{error.message}{origin}", error.next_step, code)]
    return [
        Finding("Temporal", "ok", found),
        *([] if own is None else [_accounts(own)]),
        await _namespace(client),
        await _search_attributes(client),
        await _worker_service(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
        *[
            await _worker_service(client, one, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
            for one in _further_queues(workshop, queue)
        ],
    ]


def _further_queues(workshop: Path | None, queue: str) -> list[str]:
    """The task queues of the workshop beside the one that runs are started on."""
    if workshop is None:
        return []
    try:
        providers, separate_files = own_queues(workshop)
    except LlmDoError:
        return []  # what is wrong with the workshop is another finding
    polled = polled_queues(queue, providers, separate_files=separate_files, only=ROLES)
    return [one.task_queue for one in polled if one.task_queue != queue]


def _origin(connection: Connection) -> str:
    """Return the words for the flag, variable or profile that names the server."""
    if connection.address:
        return "--address"
    if os.environ.get("TEMPORAL_ADDRESS"):
        return "TEMPORAL_ADDRESS"
    profile = connection.profile or os.environ.get("TEMPORAL_PROFILE") or "default"
    return f"the profile '{profile}' of temporal.toml"


def _not_running() -> list[Finding]:
    try:
        search = search_temporal()
    except LlmDoError as error:
        return [_error("Temporal", error.message, error.next_step)]
    program = Finding("server program", "ok", chosen(search.found[0], search.passed_over))
    return [Finding("Temporal", "ok", "the workshop's own, which is not running: `start` and `dev` start it"), program]


def chosen(program: InstalledProgram, passed_over: Sequence[str]) -> str:
    """Return a line about the program that is used, and why none of the others is."""
    return "; ".join([str(program), *(f"passed over: {one}" for one in passed_over)])


def _accounts(address: str) -> Finding:
    """Return the finding about other accounts that reach the workshop's own server."""
    others = other_logins()
    if not others:
        return Finding("accounts", "ok", f"nobody else is known to log in here; {address} is open to this machine only")
    step = "Where they are not to be trusted with it, use a machine or a container of your own, or a server with TLS."
    message = f"{logins_in_words(others)} can log in here, too, and then start, read and approve runs at {address}"
    return Finding("accounts", "warning", message, step)


async def _namespace(client: Client) -> Finding:
    name = client.namespace
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            step = f"Make it with `temporal operator namespace create -n {name}`, or name another with --namespace."
            return _error("namespace", f"there is no namespace '{name}'", step)
        return _unknown("namespace", error)
    return Finding("namespace", "ok", name)


async def _search_attributes(client: Client) -> Finding:
    what = "search attributes"
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        return _unknown(what, error)
    unknown = {name: kind for name, kind in _ATTRIBUTES.items() if name not in known.custom_attributes}
    missing = [f"--name {name} --type {kind}" for name, kind in unknown.items()]
    if not missing:
        return Finding(what, "ok", ", ".join(_ATTRIBUTES))
    step = (
        "A worker service that may do so registers them when it starts. By hand: "
        f"`temporal operator search-attribute create -n {client.namespace} {' '.join(missing)}`."
    )
    return Finding(what, "warning", f"{len(missing)} of {len(_ATTRIBUTES)} are not registered; runs do without", step)


async def _worker_service(client: Client, queue: str, kind: TaskQueueType.ValueType) -> Finding:
    try:
        recent = await recent_pollers(client, queue, kind)
    except RPCError as error:
        return _unknown("worker service", error)
    if recent:
        return Finding("worker service", "ok", f"{len(recent)} at the task queue '{queue}'")
    step = "Start one with `llm-do-temporal worker`, or name its task queue with LLM_DO_TASK_QUEUE."
    return _error("worker service", no_poller_message(queue), step)


def _error(what: str, message: str, next_step: str | None, exit_code: int = 1) -> Finding:
    return Finding(what, "error", message, next_step, exit_code)


def _unknown(what: str, error: RPCError) -> Finding:
    return Finding(what, "warning", f"the server does not say: {error.message[:200]}")


def examine_commits(workshop: Path) -> list[Finding]:
    """Return the findings of `doctor` about commits that have begun and not ended, and journals that are damaged."""
    try:
        unfinished = CommitJournal(workshop, Disk()).unfinished()
    except EffectFailed as error:
        return [Finding("commits", "error", error.message, error.next_step)]
    if not unfinished:
        return []
    keys = [record.key for record in unfinished]
    more = f", and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    files = sum(len({step.path for step in record.steps}) for record in unfinished)
    return [
        Finding(
            "commits",
            "warning",
            f"begun, and not ended: {', '.join(keys[:_NAMED])}{more} ({files} files, some may be changed already)",
            "Start a worker service: the run goes on to the end of it. If the run was terminated or deleted, look at "
            "the files, then remove its journal from '.llm-do/commits'.",
        )
    ]
