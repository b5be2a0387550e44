"""Findings of `doctor` about the program, the workshop and what it needs, the server and its worker service."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import httpx2
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import PROGRAM
from llm_do_temporal.client.connections import (
    Connection,
    connect,
    connect_config,
    connect_embedded,
    no_poller_message,
    recent_pollers,
)
from llm_do_temporal.client.embedded.host import search_temporal
from llm_do_temporal.client.embedded.server import logins_in_words, other_logins, running_host, state_folder
from llm_do_temporal.client.session import required_isolation, task_queue
from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.models import needed_variables
from llm_do_temporal.definitions.workshop import Workshop, own_queues, page_address, parse_workshop
from llm_do_temporal.errors import ConnectionFailed, DefinitionError, LlmDoError, UsageError
from llm_do_temporal.extension import Finding, added
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, STATE_ATTRIBUTE, WORKER_ATTRIBUTE
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.policy.queues import ROLES, polled_queues
from llm_do_temporal.policy.shell import Isolation
from llm_do_temporal.sandbox.bubblewrap import choose_bwrap
from llm_do_temporal.sandbox.programs import InstalledProgram
from llm_do_temporal.storage.private_files import faults, mend_modes

_ATTRIBUTES = {STATE_ATTRIBUTE: "Keyword", PENDING_ATTRIBUTE: "Int", WORKER_ATTRIBUTE: "Keyword"}
_PAGE_SECONDS = 5


async def examine(location: Location) -> list[Finding]:
    """Return all findings; starts nothing."""
    folder, found = _folder(location)
    # Connecting corrects the modes of our own files, so they are looked at before.
    state = [] if folder is None else examine_state(folder)
    server = await examine_server(location.connection(), folder, task_queue())
    python = ".".join(str(part) for part in sys.version_info[:3])
    program = Finding("program", "ok", f"{PROGRAM} {version(PROGRAM)}, Python {python}")
    return [program, *found, *state, *server, *(() if folder is None else _of_workshop(folder))]


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


def _folder(location: Location) -> tuple[Path | None, list[Finding]]:
    """Return the workshop's folder and no finding, or None and the reason why there is none."""
    try:
        return location.find_workshop(), []
    except (DefinitionError, UsageError) as error:
        return None, [Finding("workshop", "error", error.message, error.next_step or "")]


def _of_workshop(folder: Path) -> Iterator[Finding]:
    problems = check_workshop(folder)
    errors = sum(one.severity == "error" for one in problems)
    if problems:
        status = "error" if errors else "warning"
        text = f"{folder}: {errors} errors, {len(problems) - errors} warnings"
        yield Finding("workshop", status, text, f"See `{PROGRAM} check {folder}`.")
    else:
        yield Finding("workshop", "ok", str(folder))
    yield _disk(folder)
    yield from added(lambda one: one.examine(folder))
    workshop = parse_workshop(folder)[0]
    yield from _variables(workshop)
    yield _isolation(workshop)
    yield from _page(workshop)


def examine_state(folder: Path) -> list[Finding]:
    """Check whether other accounts can use the files that runs leave in the workshop, and close them."""
    found = faults(folder / STATE_FOLDER)
    if not found:
        return []
    try:
        mend_modes(state_folder(folder))
    except UsageError as error:
        return [Finding("privacy", "error", error.message, error.next_step)]
    except OSError as error:
        return [Finding("privacy", "error", f"{found[0]}, which cannot be changed: {error.strerror}")]
    return [Finding("privacy", "warning", f"{found[0]}; they are closed now", "Who could read it may have done so.")]


def _disk(folder: Path) -> Finding:
    try:
        state = state_folder(folder)
        with tempfile.NamedTemporaryFile(dir=state):
            pass
    except (UsageError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        step = "Attachments and the embedded server's database are kept there; make it writable."
        return Finding("disk", "error", f"{folder / '.llm-do'} cannot be written: {reason}", step)
    return Finding("disk", "ok", f"{state} can be written")


def _variables(workshop: Workshop) -> Iterator[Finding]:
    """Check whether variables are set; their values are not looked at."""
    also = [model for model in (os.environ.get("LLM_DO_MODEL"),) if model]
    needed = needed_variables(workshop, *also)
    for variables, whose in needed.items():
        users = ", ".join(whose)
        present = [name for name in variables if os.environ.get(name)]
        if present:
            yield Finding("variable", "ok", f"{present[0]} is set here, for {users}")
        else:
            step = "Set it where the worker service runs; the workshop's own gets what `start` or `dev` had."
            yield Finding("variable", "warning", f"{' or '.join(variables)} is not set here, for {users}", step)
    if not needed:
        yield Finding("variable", "ok", "the models and targets that the workshop names need no keys")


def _isolation(workshop: Workshop) -> Finding:
    choice = choose_bwrap()
    if choice.program is not None:
        return Finding("isolation", "ok", f"commands run in {chosen(choice.program, choice.passed_over)}")
    required = Isolation.REQUIRED in (workshop.config.shell.isolation, required_isolation())
    what = "commands are refused" if required else "commands run with all rights of the worker service"
    step = "Install bubblewrap on a Linux that allows user namespaces, or in a container that does."
    message = "; ".join(["bubblewrap does not work on this machine", *choice.passed_over, what])
    return Finding("isolation", "error" if required else "warning", message, step)


def _page(workshop: Workshop) -> Iterator[Finding]:
    """Check whether the approvals page answers, if the workshop or a variable names its address."""
    try:
        url = page_address(workshop.config, os.environ)
        if url is None:
            return
    except LlmDoError as error:
        yield Finding("page", "error", error.message, error.next_step)
        return
    try:
        # A visitor without a token is answered, too.
        status = httpx2.get(url, timeout=_PAGE_SECONDS, follow_redirects=False).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        step = f"Start the page with `{PROGRAM} ui`, or correct `ui_url` in workshop.yaml or LLM_DO_UI_URL."
        yield Finding("page", "error", f"{url} does not answer ({type(error).__name__})", step)
        return
    yield Finding("page", "ok", f"{url} answers ({status})")
