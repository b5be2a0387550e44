"""Temporal server of a measurement: a development server on SQLite, or the cluster of processes on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from benchmarks.contenders.contender import POLL_SECONDS
from benchmarks.processes import NotMeasured, Service, free_port, spawn
from llm_do_temporal.client.connections import Connection, connect
from llm_do_temporal.client.embedded.host import temporal_binary
from llm_do_temporal.errors import ConnectionFailed
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError

CLUSTER_VARIABLE = "BENCH_CLUSTER"
"""Set to 1: measurements use the cluster."""
_START_SECONDS = 30
_STARTS = 3


@dataclass(frozen=True)
class Server:
    """The Temporal server of one measurement; of a development server also its process, and its database (SQLite)."""

    temporal: Client
    address: str
    process: Service | None = None
    database: Path | None = None


def on_cluster() -> bool:
    """Whether measurements use the cluster."""
    return os.environ.get(CLUSTER_VARIABLE) == "1"


async def start_server(stack: ExitStack, folder: Path, *, in_memory: bool = False) -> Server:
    """Start the server, which ends with the stack. Raises NotMeasured.

    A development server has its database in a file of the folder, unless it is to be in memory.
    """
    if on_cluster():
        about = _cluster(stack, folder).running
        return Server(await connect(Connection(about.address, about.namespace)), about.address)
    # On a busy machine somebody may take one of its ports first, so it gets more than one chance.
    for _ in range(_STARTS - 1):
        with suppress(NotMeasured):
            return await _start_development(stack, folder, in_memory=in_memory)
    return await _start_development(stack, folder, in_memory=in_memory)


def _cluster(stack: ExitStack, folder: Path) -> Cluster:
    # PostgreSQL is another account where this one is root, and has to get to its own files.
    folder.chmod(0o711)
    cluster = Cluster(folder / "cluster", server_only=True)
    try:
        cluster.up()
    except ClusterError as error:
        raise NotMeasured(f"there is no cluster: {error}") from error
    stack.callback(cluster.down)
    return cluster


async def _start_development(stack: ExitStack, folder: Path, *, in_memory: bool) -> Server:
    address = f"127.0.0.1:{(port := free_port())}"
    database = None if in_memory else folder / f"temporal-{port}.db"
    command = [temporal_binary(), "server", "start-dev", "--headless", "--port", str(port), "--log-level", "error"]
    process = spawn("temporal", [*command, *(["--db-filename", str(database)] if database else [])], folder)
    stack.callback(process.kill)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process.check()
        try:
            return Server(await connect(Connection(address, "default")), address, process, database)
        except ConnectionFailed as error:
            if time.monotonic() > deadline:
                raise NotMeasured(f"the Temporal server does not answer: {error}") from error
            await asyncio.sleep(POLL_SECONDS)
