"""`python -m worker_service`: connect, register, poll until told to stop.

Settings: `--workshop DIR` or `LLM_DO_WORKSHOP`; the task queue is `llm-do` unless `LLM_DO_TASK_QUEUE` says
otherwise; the connection is found like the `temporal` CLI finds it (`TEMPORAL_*`, `temporal.toml`).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from llm_do_temporal.client.connecting import Connection, connect, connect_embedded
from llm_do_temporal.definitions import find_workshop
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages import TASK_QUEUE
from llm_do_temporal.service import ServiceSettings, build_worker, register_search_attributes

_log = logging.getLogger("worker_service")


def main() -> None:
    """Run until SIGTERM or SIGINT, then finish what is under way."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for library in ("httpx", "httpx2"):
        logging.getLogger(library).setLevel(logging.WARNING)
    arguments = _parser().parse_args()
    code = 0
    try:
        asyncio.run(_serve(arguments))
    except LlmDoError as error:
        print(f"llm-do-temporal: {error}", file=sys.stderr)
        code = error.exit_code
    # A process that has used the Temporal client can abort while Python exits; leave before it can.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="worker_service", description="Worker service for one workshop.")
    parser.add_argument("--workshop", default=os.environ.get("LLM_DO_WORKSHOP"), help="folder with workshop.yaml")
    parser.add_argument("--address", default=None, help="Temporal server, host:port")
    parser.add_argument("--namespace", default=None)
    parser.add_argument("--embedded", default=None, help="the embedded server's address; no other setting is looked at")
    parser.add_argument("--profile", default=None, help="profile of temporal.toml")
    parser.add_argument("--max-cached-workflows", type=int, default=ServiceSettings.max_cached_workflows)
    return parser


async def _serve(arguments: argparse.Namespace) -> None:
    workshop = find_workshop(Path(arguments.workshop or "."))
    if arguments.embedded:
        client = await connect_embedded(arguments.embedded)
    else:
        client = await connect(Connection(arguments.address, arguments.namespace, profile=arguments.profile))
    registered = await register_search_attributes(client)
    settings = ServiceSettings(
        task_queue=os.environ.get("LLM_DO_TASK_QUEUE") or TASK_QUEUE,
        max_cached_workflows=arguments.max_cached_workflows,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with build_worker(client, workshop, settings, search_attributes=registered):
        _log.info("ready: task queue %s", settings.task_queue)
        await stop.wait()
        _log.info("stopping: finishing what is under way")


if __name__ == "__main__":
    main()
