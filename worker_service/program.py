"""The worker service: connect, register, poll until told to stop.

Settings: flags, `LLM_DO_*` variables, or the file that `LLM_DO_SETTINGS` names (see `settings`); the connection is
found like the `temporal` CLI finds it (`TEMPORAL_*`, `temporal.toml`).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from temporalio.client import Client
from temporalio.runtime import Runtime

from llm_do_temporal.activities.definitions import RunNote, no_note
from llm_do_temporal.client.connections import Connection, connect, connect_embedded
from llm_do_temporal.client.embedded.server import remember_needed
from llm_do_temporal.client.session import required_isolation, task_queue
from llm_do_temporal.definitions.workshop import find_workshop
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UsageError
from llm_do_temporal.extension import added
from llm_do_temporal.service.build import build_worker, register_search_attributes
from llm_do_temporal.signals import leave_to_forks, leave_when_told, outlive_others
from llm_do_temporal.telemetry import begin_telemetry, end_telemetry
from worker_service.health import Progress, health_server
from worker_service.logs import begin_logging
from worker_service.metrics import install_runtime, watch_pending
from worker_service.settings import Settings, embedded_settings, read_settings

_INTERRUPTED = 130
_FLUSH_SECONDS = 5.0
_CANCEL_SECONDS = 3.0
"""Time for cancelled activities to end."""
_log = logging.getLogger("worker_service")


def main() -> None:
    """Run until SIGTERM or SIGINT, then finish activities under way."""
    settings, code = None, 0
    try:
        leave_when_told()
        arguments = _parser().parse_args()
        settings = _settings(arguments)
        begin_logging(settings.log_format, settings.log_level)
        begin_telemetry(http=True)
        asyncio.run(_serve(arguments, settings))
    except LlmDoError as error:
        text = f"{error}\n{error.next_step}" if error.next_step else str(error)
        if settings is not None and settings.log_format == "json":
            _log.error(text)
        else:
            print(f"llm-do-temporal: {text}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = _INTERRUPTED
    _leave(code)


def _leave(code: int) -> NoReturn:
    end_telemetry(_FLUSH_SECONDS)
    # A process that has used the Temporal client can abort while Python exits; leave before it can.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _break_off() -> NoReturn:
    """Leave although an activity does not end: Python code in a thread cannot be stopped."""
    _log.warning("stopped: what was still under way is broken off")
    _leave(1)


def _settings(arguments: argparse.Namespace) -> Settings:
    if arguments.embedded:
        return embedded_settings(workshop=arguments.workshop, task_queue=task_queue(), isolation=required_isolation())
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
    runtime = install_runtime(settings.listen, settings.metrics_port)
    progress = Progress()
    port = settings.health_port
    with nullcontext() if port is None else health_server(settings.listen, port, progress):
        progress.client = client = await _connected(arguments)
        registered = await register_search_attributes(client)
        stop = asyncio.Event()
        queue, given = settings.task_queue, settings.added
        nexus = added(lambda one: one.nexus_handlers(client, workshop, queue, given, sets_attributes=registered))
        note: RunNote = remember_needed if arguments.embedded else no_note
        chosen = replace(settings.service, nexus_handlers=tuple(nexus), note=note)
        worker = build_worker(client, workshop, chosen, search_attributes=registered)
        # What is loaded by now stays until the end. A collection of garbage that looks through all of it keeps workflow
        # code waiting, on a busy machine for longer than the 2 s that the SDK allows a workflow task.
        gc.freeze()
        gc.enable()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        outlive_others(partial(_log.warning, "%s has reached this process: it goes on, and stops at SIGTERM or SIGINT"))
        leave_to_forks()
        try:
            async with _counted(client, runtime, wanted=settings.metrics_port is not None and registered), worker:
                progress.polled = worker.polled
                _log.info("ready: task queue %s", ", ".join(polled.task_queue for polled in worker.polled))
                await stop.wait()
                progress.stopping = True
                _log.info("stopping: finishing what is under way")
                patience = settings.service.graceful_shutdown.total_seconds() + _CANCEL_SECONDS
                loop.call_later(patience, _break_off)
        except RuntimeError as error:
            # The SDK raises this when its worker cannot go on.
            raise ConnectionFailed(
                f"the Temporal worker has ended: {str(error).partition(': Status {')[0]}",
                next_step="Check the address, the namespace, and what the credentials allow.",
            ) from error


async def _connected(arguments: argparse.Namespace) -> Client:
    if arguments.embedded:
        return await connect_embedded(arguments.embedded)
    return await connect(Connection(arguments.address, arguments.namespace, profile=arguments.profile))


@asynccontextmanager
async def _counted(client: Client, runtime: Runtime, *, wanted: bool) -> AsyncGenerator[None]:
    """Count pending approvals while the block runs, if `wanted`."""
    watching = asyncio.create_task(watch_pending(client, runtime)) if wanted else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
