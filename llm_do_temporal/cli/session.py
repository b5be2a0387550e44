"""From what was typed to a connected client. Used by every command that talks to Temporal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from llm_do_temporal.cli.options import Location
from llm_do_temporal.client.connecting import DEFAULT_NAMESPACE, names_server
from llm_do_temporal.client.session import Session, open_session, task_queue
from llm_do_temporal.errors import UsageError

__all__ = ["Session", "opened", "task_queue"]


@asynccontextmanager
async def opened(location: Location) -> AsyncGenerator[Session]:
    """Connect; the embedded server, when it is used, stays at least as long as the block runs.

    Raises ConnectionFailed, UsageError for flags that cannot be used, WorkshopNotFound.
    """
    connection = location.connection()
    if names_server(connection):
        workshop = location.local_workshop()
    else:
        _check_unused_flags(location)
        workshop = location.find_workshop()
    async with open_session(connection, workshop) as session:
        yield session


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
