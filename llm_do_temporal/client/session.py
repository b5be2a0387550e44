"""Session: an open connection to the server that is named, else to the embedded server of the workshop.

Owns the choice between the two. Used by the command line and by `run_worker`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from llm_do_temporal.client.connections import Connection, connect, connect_embedded, names_server
from llm_do_temporal.client.embedded.server import HostUse, embedded_server, lacking, running_host, state_folder
from llm_do_temporal.encryption.keys import key_ring
from llm_do_temporal.environment import ISOLATION_VARIABLE
from llm_do_temporal.errors import UsageError, WorkshopNotFound
from llm_do_temporal.messages.base import TASK_QUEUE
from llm_do_temporal.policy.shell import Isolation

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient


@dataclass(frozen=True)
class Session:
    """Open connection to a server."""

    client: LlmDoClient
    workshop: Path | None
    """The workshop's folder; always known for the embedded server."""
    address: str
    embedded: bool

    @property
    def served_since(self) -> datetime | None:
        """Time since which the embedded server and its worker service are there; None: the server is another one."""
        if not self.embedded or self.workshop is None:
            return None
        try:
            return datetime.fromtimestamp((state_folder(self.workshop) / "host.json").stat().st_mtime, UTC)
        except OSError:
            return None


@asynccontextmanager
async def open_session(
    connection: Connection,
    workshop: Path | None,
    *,
    use: HostUse = "work",
    starting: Callable[[HostUse, list[str]], None] | None = None,
) -> AsyncGenerator[Session]:
    """Connect; the embedded server, when it is used, stays at least as long as the block runs.

    `workshop` may be None only where the connection names a server. Where this environment lacks variables that open
    runs need, a host is started for no more than `use`, so that it does not stay; else for work. `starting` is called
    before that, which takes seconds, with both; not where the server runs already. Raises ConnectionFailed, UsageError
    for a configuration that cannot be used, WorkshopNotFound.
    """
    # A worker service has this module, too, and needs no client.
    from llm_do_temporal.client.client import LlmDoClient

    # Before a server is started whose services would have the same keys.
    key_ring()
    if names_server(connection):
        temporal = await connect(connection, workshop)
        client = LlmDoClient(temporal, task_queue=task_queue())
        yield Session(client, workshop, temporal.service_client.config.target_host, embedded=False)
        return
    if workshop is None:
        raise WorkshopNotFound("the embedded server needs a workshop: its state is kept in the workshop's folder")
    missing = lacking(workshop)
    use = use if missing else "work"
    host = running_host(workshop)
    if starting is not None and (host is None or not host.is_enough(use)):
        starting(use, missing)
    async with embedded_server(workshop, use) as info:
        temporal = await connect_embedded(info.address, workshop)
        yield Session(LlmDoClient(temporal, task_queue=task_queue()), workshop, info.address, embedded=True)


def task_queue() -> str:
    """The task queue that the worker service of this environment polls."""
    return os.environ.get("LLM_DO_TASK_QUEUE") or TASK_QUEUE


def required_isolation() -> Isolation:
    """Return this environment's isolation setting for commands. Raises UsageError for an unknown value."""
    said = os.environ.get(ISOLATION_VARIABLE) or Isolation.PREFERRED
    try:
        return Isolation(said)
    except ValueError:
        raise UsageError(f"{ISOLATION_VARIABLE} is 'required' or 'preferred', not '{said}'") from None
