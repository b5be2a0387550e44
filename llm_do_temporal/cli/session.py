"""From what was typed to a connected client.

Owns the choice between a named server and the embedded one. Used by every command that talks to Temporal.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.cli.options import Location
from llm_do_temporal.client.connecting import DEFAULT_NAMESPACE, connect, connect_embedded, names_server
from llm_do_temporal.client.embedded import embedded_server
from llm_do_temporal.client.runs import LlmDoClient
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages import TASK_QUEUE


@dataclass(frozen=True)
class Session:
    """A connection that is open."""

    client: LlmDoClient
    workshop: Path | None
    """The workshop's folder; always known for the embedded server."""
    address: str
    embedded: bool


@asynccontextmanager
async def opened(location: Location) -> AsyncGenerator[Session]:
    """Connect; the embedded server, when it is used, stays at least as long as the block runs.

    Raises ConnectionFailed, UsageError for flags that cannot be used, WorkshopNotFound.
    """
    connection = location.connection()
    if names_server(connection):
        temporal = await connect(connection)
        client = LlmDoClient(temporal, task_queue=task_queue())
        address = temporal.service_client.config.target_host
        yield Session(client, location.local_workshop(), address, embedded=False)
        return
    _check_unused_flags(location)
    workshop = location.find_workshop()
    async with embedded_server(workshop) as info:
        temporal = await connect_embedded(info.address)
        yield Session(LlmDoClient(temporal, task_queue=task_queue()), workshop, info.address, embedded=True)


def task_queue() -> str:
    """The task queue that the worker service of this environment polls."""
    return os.environ.get("LLM_DO_TASK_QUEUE") or TASK_QUEUE


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
