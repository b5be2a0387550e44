"""`dev`, `worker`, `ui` and `migrate-check`: processes that serve a workshop, and a check of the next version."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import Parameter

from llm_do_temporal.cli.options import HERE, JsonObject, Location
from llm_do_temporal.cli.text import PROGRAM, say
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.signals import hold_back, leave_when_told, stop_when_told

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.embedded.host import Host
    from llm_do_temporal.client.embedded.server import HostInfo
    from llm_do_temporal.ui.page_server import PageServer
    from llm_do_temporal.ui.temporal_ui import TemporalUi


_TAKEOVER_SECONDS = 60
"""Wait for a background host, which gives its worker service up to 40 s to finish activities."""
_POLL_SECONDS = 0.1


async def dev(
    *,
    port: int | None = None,
    temporal_ui: Annotated[bool, Parameter(negative=())] = False,
    ui_port: int | None = None,
    page_port: int | None = None,
    no_page: bool = False,
    location: Location = HERE,
) -> int:
    """Serve the workshop in the foreground until Ctrl-C: embedded Temporal server, worker service and web page.

    Parameters
    ----------
    port
        Port of the Temporal server; 7233 by default.
    temporal_ui
        Show the Temporal UI, too, in which everything can be done.
    ui_port
        Port of the Temporal UI, which is shown then; by default the server's port and 1000.
    page_port
        Port of the web page; by default that of the last start, 8234, or any other where these are in use.
    no_page
        Do without the web page.
    """
    from llm_do_temporal.client.connections import names_server
    from llm_do_temporal.client.embedded.host import Host, HostSettings
    from llm_do_temporal.encryption.keys import key_ring
    from llm_do_temporal.ui.page_server import PageOptions, PageServer

    _check_ports(port, ui_port)
    key_ring()  # the services that it starts have the same keys
    if location.address is not None:
        raise UsageError(
            f"dev starts a server of its own and cannot use '{location.address}'",
            next_step=f"Run the worker service against that server: {location.command('worker')}",
        )
    workshop = location.find_workshop()
    await _make_room(workshop)
    shown = _shown_ui(port, ui_port) if temporal_ui or ui_port else None
    host = Host(HostSettings(workshop, kind="dev", port=port, ui=shown and shown.address))
    _stop_on_signals(host)
    elsewhere = names_server(location.connection())
    page = None if no_page else PageServer(PageOptions(port=page_port, workshop=workshop))
    serving: set[asyncio.Task[None]] = set()

    def ready(info: HostInfo) -> None:
        if page is not None:
            serving.add(asyncio.create_task(_serve_page(page, info, workshop)))
        if shown is not None and host.hidden_ui is not None:
            serving.add(asyncio.create_task(shown.serve(host.hidden_ui)))
        _announce(info, workshop, page, elsewhere=elsewhere)

    try:
        await host.run(ready)
    finally:
        for server in filter(None, (page, shown)):
            server.stop()
        await asyncio.gather(*serving)
    say("stopped; runs that are open go on with the next `start`, `watch` or `dev`")
    return 0


def worker(
    *,
    only: Annotated[str | None, Parameter(help="What this one does: workflows, models, files, or several.")] = None,
    max_cached_workflows: Annotated[int | None, Parameter(help="Workflows kept in memory between tasks.")] = None,
    location: Location = HERE,
) -> int:
    """Run the worker service alone, against the server that the flags, TEMPORAL_* or a profile name."""
    leave_when_told()
    workshop = location.find_workshop()
    command = [sys.executable, "-P", "-m", "worker_service", "--workshop", str(workshop)]
    if only is not None:
        command += ["--only", only]
    if max_cached_workflows is not None:
        command += ["--max-cached-workflows", str(max_cached_workflows)]
    _become(command, service_environment(location, workshop))


async def migrate_check(
    *, task_queue: str | None = None, as_json: JsonObject = False, location: Location = HERE
) -> int:
    """Replay every open run of the namespace against the installed code, and list what would not go on with it.

    Changes nothing. Exit 0 where everything would go on, else 1. Run it with the new version, before it serves.

    Parameters
    ----------
    task_queue
        Only what is open on this task queue.
    """
    from llm_do_temporal.cli.session import undisturbed
    from llm_do_temporal.client.embedded.host import die_with_parent

    async with undisturbed(location) as (workshop, embedded):
        given = {"--workshop": workshop, "--embedded": embedded, "--task-queue": task_queue}
        command = [sys.executable, "-P", "-m", "worker_service.migrate_check", *(["--json"] if as_json else [])]
        command += [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        variables = service_environment(location, workshop)
        # A Ctrl-C goes to this process, which then ends the child; so does any other end of this process.
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **variables}, start_new_session=True, preexec_fn=die_with_parent
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.kill()
            raise


def _become(command: list[str], variables: dict[str, str]) -> NoReturn:
    """Replace this process with another program, which then gets its signals and gives its exit code."""
    hold_back()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, {**os.environ, **variables})  # noqa: S606 - no shell is wanted


def service_environment(location: Location, workshop: Path | None) -> dict[str, str]:
    """Return the connection as variables, which every Temporal client reads; so no key stands on a command line."""
    from llm_do_temporal.client.connections import names_server
    from llm_do_temporal.client.embedded.server import running_host

    values = {
        "TEMPORAL_ADDRESS": location.address,
        "TEMPORAL_NAMESPACE": location.namespace,
        "TEMPORAL_API_KEY": location.api_key,
        "TEMPORAL_TLS": None if location.tls is None else str(location.tls).lower(),
        "TEMPORAL_TLS_CLIENT_CERT_PATH": location.tls_cert_path,
        "TEMPORAL_TLS_CLIENT_KEY_PATH": location.tls_key_path,
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH": location.tls_ca_path,
        "TEMPORAL_TLS_SERVER_NAME": location.tls_server_name,
        "TEMPORAL_PROFILE": location.profile,
    }
    if workshop is not None and not names_server(location.connection()):
        host = running_host(workshop)
        values["TEMPORAL_ADDRESS"] = host.address if host is not None else None
    return {name: value for name, value in values.items() if value is not None}


def _shown_ui(port: int | None, ui_port: int | None) -> TemporalUi:
    from llm_do_temporal.client.embedded.server import DEFAULT_PORT, UI_PORT_OFFSET
    from llm_do_temporal.ui.temporal_ui import TemporalUi

    return TemporalUi(ui_port or (port or DEFAULT_PORT) + UI_PORT_OFFSET)


def _check_ports(*ports: int | None) -> None:
    for port in ports:
        if port is not None and not 0 < port < 65_536:
            raise UsageError(f"{port} is not a port; ports go from 1 to 65535")


async def _make_room(workshop: Path) -> None:
    """Ask a background host to leave. Raises UsageError where a `dev` serves the workshop already."""
    from llm_do_temporal.client.embedded.server import host_lock_is_free, running_host, state_folder

    host = running_host(workshop)
    if host is not None and host.kind == "dev":
        raise UsageError(
            f"`{PROGRAM} dev` already serves this workshop at {host.address} (process {host.pid})",
            next_step="Use that one, or stop it with Ctrl-C where it runs.",
        )
    if host is not None:
        say("taking over from the background server of this workshop …")
        try:
            os.kill(host.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass  # it has left just now
        except PermissionError:
            raise UsageError(
                f"another account of this machine serves this workshop (process {host.pid})",
                next_step="Have that account stop it, or use it as it is.",
            ) from None
    deadline = time.monotonic() + _TAKEOVER_SECONDS
    while not host_lock_is_free(state_folder(workshop)):
        if time.monotonic() > deadline:
            raise LlmDoError("the background server of this workshop does not stop", next_step="Try again in a minute.")
        await asyncio.sleep(_POLL_SECONDS)


def _stop_on_signals(host: Host) -> None:
    received: list[int] = []

    def stop(number: int) -> None:
        if received:
            # A second Ctrl-C means: do not wait. The children die with this process.
            os._exit(128 + number)
        received.append(number)
        say("\nstopping: finishing what is under way; press Ctrl-C again to stop at once")
        host.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)


async def _serve_page(page: PageServer, info: HostInfo, workshop: Path) -> None:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.connections import connect_embedded
    from llm_do_temporal.client.session import task_queue
    from llm_do_temporal.telemetry import begin_telemetry

    begin_telemetry()
    client = LlmDoClient(await connect_embedded(info.address, workshop), task_queue=task_queue())
    api = api_of(client, workshop, embedded=True)
    await page.serve(client, workshop=workshop, temporal_ui=info.ui, embedded=True, build_api=api)


def _announce(info: HostInfo, workshop: Path, page: PageServer | None, *, elsewhere: bool) -> None:
    from llm_do_temporal.client.embedded.server import logins_in_words, other_logins

    say(f"workshop      {workshop}")
    if page is not None:
        announce_page(page)
    say(f"Temporal      {info.address}")
    say(f"Temporal UI   {info.ui or 'not shown; --temporal-ui shows it'}")
    say(f"logs          {workshop / '.llm-do'}/service.log and server.log")
    others = other_logins()
    who = (
        f"every account of this machine ({logins_in_words(others)})" if others else "whoever can log in to this machine"
    )
    say(f"note: {info.address} asks nobody who they are: {who} can start, read and approve runs there")
    if elsewhere:
        say("note: TEMPORAL_ADDRESS or a profile names another server, and commands will use that one")
    say(f"\nIn another terminal, in the workshop: {PROGRAM} start WORKER 'what to do'\nCtrl-C stops.")


async def ui(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token_file: Path | None = None,
    trusted_header: str | None = None,
    trusted_proxy: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    allowed_host: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    temporal_ui: str | None = None,
    location: Location = HERE,
) -> int:
    """Serve the web page with the inbox, approvals and runs until Ctrl-C; prints the link to open.

    Parameters
    ----------
    host
        Address to listen at; 127.0.0.1 by default. Beyond this machine a token file or a proxy must say who people are.
    port
        Port to listen at; by default that of the last start, 8234, or any other where these are in use.
    token_file
        Who may come in: a file with lines `name: token`. Decisions record the name.
    trusted_header
        Header in which a proxy names the user, like X-Forwarded-User.
    trusted_proxy
        IP address of that proxy; the header counts from nobody else. May be given several times.
    allowed_host
        Name by which people call the page, where it is not the address listened at. May be given several times.
    temporal_ui
        Address of the Temporal UI, for links into it; known for the embedded server.
    """
    leave_when_told()
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.telemetry import begin_telemetry
    from llm_do_temporal.ui.access import Admission
    from llm_do_temporal.ui.page_server import PageOptions, PageServer

    begin_telemetry()
    admission = Admission(token_file, trusted_header, trusted_proxy)
    page = PageServer(PageOptions(host, port, admission, allowed_host, location.local_workshop()))
    try:
        async with opened(location) as session:
            stop_when_told(page.stop)
            announce_page(page)
            say("Ctrl-C stops the page; runs go on.")
            await page.serve(
                session.client,
                workshop=session.workshop,
                temporal_ui=temporal_ui.rstrip("/") if temporal_ui else _own_temporal_ui(session),
                namespace=session.client.temporal.namespace,
                embedded=session.embedded,
                build_api=api_of(session.client, session.workshop, embedded=session.embedded),
            )
    finally:
        page.stop()
    return 0


def api_of(
    client: LlmDoClient, workshop: Path | None, *, embedded: bool
) -> Callable[[Collection[str]], ASGIApp] | None:
    """Return what makes the door for programs under the page's names; None where no workshop, and so no token, is."""
    if workshop is None:
        return None

    def build(hosts: Collection[str]) -> ASGIApp:
        from llm_do_temporal.doors.http.app import build_api
        from llm_do_temporal.doors.http.requests import misdirected
        from llm_do_temporal.doors.principal import TokenFile
        from llm_do_temporal.doors.service import DoorService
        from llm_do_temporal.ui.http_server import OnlyByName

        api = build_api(DoorService(client, workshop, embedded=embedded), TokenFile.of_workshop(workshop))
        return OnlyByName(api, hosts, misdirected())

    return build


def announce_page(page: PageServer) -> None:
    """Say where the page is."""
    say(f"page          {page.link}")


def _own_temporal_ui(session: Session) -> str | None:
    from llm_do_temporal.client.embedded.server import running_host

    host = running_host(session.workshop) if session.embedded and session.workshop is not None else None
    return host.ui if host is not None else None
