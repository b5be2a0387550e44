"""Connections of commands: a `Location` becomes a connected client. Used by every command that talks to Temporal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say
from llm_do_temporal.client.connections import DEFAULT_NAMESPACE, names_server
from llm_do_temporal.client.embedded.server import HostUse
from llm_do_temporal.client.session import Session, open_session, task_queue
from llm_do_temporal.errors import UsageError

_WITHOUT_KEYS: dict[HostUse, str] = {
    "reading": "no worker service is started; runs go on with `llm-do-temporal dev` where they are set",
    "decision": "the worker service ends with this command; runs go on with `llm-do-temporal dev` where they are set",
    "work": "a run that needs one waits until the worker service is started again where it is set",
}

__all__ = ["Session", "opened", "task_queue", "undisturbed"]


@asynccontextmanager
async def opened(location: Location, use: HostUse = "work") -> AsyncGenerator[Session]:
    """Connect; an embedded server that is used stays at least as long as the block runs.

    `use` is the most that is started where keys that open runs need are not set here. Raises ConnectionFailed,
    UsageError for flags that cannot be used, WorkshopNotFound.
    """
    connection, workshop = location.connection(), _workshop(location)
    async with open_session(connection, workshop, use=use, starting=_say_starting) as session:
        yield session


@asynccontextmanager
async def undisturbed(location: Location) -> AsyncGenerator[tuple[Path | None, str | None]]:
    """Yield the workshop, and the address of its embedded server if no other server is named.

    No worker service is started for this. Either may be None. Raises like `opened`.
    """
    from llm_do_temporal.client.embedded.host import undisturbed_server

    workshop = _workshop(location)
    if workshop is None or names_server(location.connection()):
        yield workshop, None
        return
    async with undisturbed_server(workshop) as info:
        yield workshop, info.address


def _say_starting(use: HostUse, missing: list[str]) -> None:
    if missing:
        say(f"warning: open runs may need variables that are not set here: {', '.join(missing)}; {_WITHOUT_KEYS[use]}")
    say(f"starting the workshop's own Temporal server{'' if use == 'reading' else ' and worker service'} …")


def _workshop(location: Location) -> Path | None:
    """Return the workshop's folder; None if there is none and a server is named."""
    if names_server(location.connection()):
        return location.local_workshop()
    _check_unused_flags(location)
    return location.find_workshop()


def _check_unused_flags(location: Location) -> None:
    given = {
        "--namespace": location.namespace,
        "--api-key": location.api_key,
        "--tls": location.tls,
        "--tls-cert-path": location.tls_cert_path,
        "--tls-server-name": location.tls_server_name,
    }
    for flag, value in given.items():
        if value and value != DEFAULT_NAMESPACE:
            raise UsageError(
                f"{flag} says nothing without a server: nothing names an address",
                next_step="Add --address HOST:PORT, or leave it out to use the workshop's own server.",
            )
