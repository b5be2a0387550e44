"""`python -m worker_service`: connect, register, poll until told to stop.

Settings: flags, `LLM_DO_*` variables, or the file that `LLM_DO_SETTINGS` names (see `settings`); the connection is
found like the `temporal` CLI finds it (`TEMPORAL_*`, `temporal.toml`).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager

from temporalio.client import Client
from temporalio.runtime import Runtime

from llm_do_temporal.client.connecting import Connection, connect, connect_embedded
from llm_do_temporal.definitions import find_workshop
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.queues import Polled
from llm_do_temporal.service import build_worker, register_search_attributes
from llm_do_temporal.telemetry import begin_telemetry, end_telemetry
from worker_service.health import health_server, polls
from worker_service.logs import begin_logging
from worker_service.metrics import install_runtime, watch_pending
from worker_service.settings import Settings, read_settings

_FLUSH_SECONDS = 5.0
_log = logging.getLogger("worker_service")


def main() -> None:
    """Run until SIGTERM or SIGINT, then finish what is under way."""
    arguments = _parser().parse_args()
    code = 0
    try:
        settings = read_settings(
            workshop=arguments.workshop, only=arguments.only, max_cached_workflows=arguments.max_cached_workflows
        )
        begin_logging(settings.log_format, settings.log_level)
        begin_telemetry(http=True)
        asyncio.run(_serve(arguments, settings))
    except LlmDoError as error:
        print(f"llm-do-temporal: {error}", file=sys.stderr)
        if error.next_step:
            print(error.next_step, file=sys.stderr)
        code = error.exit_code
    end_telemetry(_FLUSH_SECONDS)
    # A process that has used the Temporal client can abort while Python exits; leave before it can.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="worker_service", description="Worker service for one workshop.")
    parser.add_argument("--workshop", default=None, help="folder with workshop.yaml")
    parser.add_argument("--address", default=None, help="Temporal server, host:port")
    parser.add_argument("--namespace", default=None)
    parser.add_argument("--embedded", default=None, help="the embedded server's address; no other setting is looked at")
    parser.add_argument("--profile", default=None, help="profile of temporal.toml")
    parser.add_argument("--only", default=None, help="workflows, models, files: what this process does")
    parser.add_argument("--max-cached-workflows", type=int, default=None)
    return parser


async def _serve(arguments: argparse.Namespace, settings: Settings) -> None:
    workshop = find_workshop(settings.workshop)
    service = settings.service
    runtime = install_runtime(settings.listen, settings.metrics_port)
    if arguments.embedded:
        client = await connect_embedded(arguments.embedded)
    else:
        client = await connect(Connection(arguments.address, arguments.namespace, profile=arguments.profile))
    registered = await register_search_attributes(client)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    worker = build_worker(client, workshop, service, search_attributes=registered)
    async with _observed(client, runtime, settings, stop, worker.polled, count=registered), worker:
        _log.info("ready: task queue %s", ", ".join(one.task_queue for one in worker.polled))
        await stop.wait()
        _log.info("stopping: finishing what is under way")


@asynccontextmanager
async def _observed(
    client: Client,
    runtime: Runtime,
    settings: Settings,
    stop: asyncio.Event,
    polled: Sequence[Polled],
    *,
    count: bool,
) -> AsyncGenerator[None]:
    """Health and metrics, where they are wanted, until the last activity has ended."""

    async def alive() -> str | None:
        return None

    async def ready() -> str | None:
        return "stopping" if stop.is_set() else await polls(client, polled)

    with ExitStack() as open_until_then:
        if settings.health_port is not None:
            open_until_then.enter_context(
                health_server(settings.listen, settings.health_port, alive=alive, ready=ready)
            )
        watching = None
        if settings.metrics_port is not None and count:
            watching = asyncio.create_task(watch_pending(client, runtime))
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()


if __name__ == "__main__":
    main()
