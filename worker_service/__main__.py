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
from pathlib import Path
from typing import NoReturn

from temporalio.client import Client
from temporalio.runtime import Runtime

from llm_do_temporal.client.connecting import Connection, connect, connect_embedded
from llm_do_temporal.client.session import task_queue
from llm_do_temporal.definitions import find_workshop
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.policy.queues import Polled
from llm_do_temporal.service import build_worker, register_search_attributes
from llm_do_temporal.telemetry import begin_telemetry, end_telemetry
from worker_service.health import health_server, polls
from worker_service.logs import begin_logging
from worker_service.metrics import install_runtime, watch_pending
from worker_service.settings import EmbeddedSettings, Settings, read_settings

_FLUSH_SECONDS = 5.0
_CANCEL_SECONDS = 3.0
"""How long what is cancelled may take to end."""
_log = logging.getLogger("worker_service")


def main() -> None:
    """Run until SIGTERM or SIGINT, then finish what is under way."""
    arguments = _parser().parse_args()
    settings, code = None, 0
    try:
        settings = _settings(arguments)
        begin_logging(settings.log_format, settings.log_level)
        begin_telemetry(http=True)
        asyncio.run(_serve(arguments, settings))
    except LlmDoError as error:
        _say(error, as_json=settings is not None and settings.log_format == "json")
        code = error.exit_code
    _leave(code)


def _say(error: LlmDoError, *, as_json: bool) -> None:
    text = f"{error}\n{error.next_step}" if error.next_step else str(error)
    if as_json:
        _log.error(text)
    else:
        print(f"llm-do-temporal: {text}", file=sys.stderr)


def _leave(code: int) -> NoReturn:
    end_telemetry(_FLUSH_SECONDS)
    # A process that has used the Temporal client can abort while Python exits; leave before it can.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _break_off() -> NoReturn:
    """Leave although something is under way that does not end: Python code in a thread cannot be stopped."""
    _log.warning("stopped: what was still under way is broken off")
    _leave(1)


def _settings(arguments: argparse.Namespace) -> Settings:
    if arguments.embedded:
        return EmbeddedSettings(workshop=arguments.workshop, task_queue=task_queue())
    return read_settings(
        workshop=arguments.workshop, only=arguments.only, max_cached_workflows=arguments.max_cached_workflows
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="worker_service", description="Worker service for one workshop.")
    parser.add_argument("--workshop", default=None, help="folder with workshop.yaml")
    parser.add_argument("--address", default=None, help="Temporal server, host:port")
    parser.add_argument("--namespace", default=None)
    parser.add_argument("--embedded", default=None, help="the embedded server's address; no settings are looked at")
    parser.add_argument("--profile", default=None, help="profile of temporal.toml")
    parser.add_argument("--only", default=None, help="workflows, models, files: what this process does")
    parser.add_argument("--max-cached-workflows", type=int, default=None)
    return parser


async def _serve(arguments: argparse.Namespace, settings: Settings) -> None:
    if not settings.workshop.is_dir():
        raise UsageError(
            f"the workshop '{settings.workshop}' is not a folder",
            next_step="--workshop or LLM_DO_WORKSHOP names the one with workshop.yaml.",
        )
    workshop = find_workshop(settings.workshop, named=settings.workshop != Path())
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
    try:
        async with _observed(client, runtime, settings, stop, worker.polled, count=registered), worker:
            _log.info("ready: task queue %s", ", ".join(one.task_queue for one in worker.polled))
            await stop.wait()
            _log.info("stopping: finishing what is under way")
            loop.call_later(service.graceful_shutdown.total_seconds() + _CANCEL_SECONDS, _break_off)
    except RuntimeError as error:
        # So the SDK says that its worker cannot go on.
        raise ConnectionFailed(
            f"the Temporal worker has ended: {str(error).partition(': Status {')[0]}",
            next_step="Check the address, the namespace, and what the credentials allow.",
        ) from error


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
