"""`python -m worker_service.migrate_check`: would the installed code go on with the open runs?

Replays their histories in this process, and changes nothing. `llm-do-temporal migrate-check` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from llm_do_temporal.client.connections import Connection, connect, connect_embedded, is_missing
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.errors import ConnectionFailed, LlmDoError
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_WORKFLOW
from llm_do_temporal.service.build import build_replayer
from worker_service.metrics import install_runtime

_OPEN = f"WorkflowType IN ('{RUN_WORKFLOW}', '{WORKER_WORKFLOW}') AND ExecutionStatus = 'Running'"
_SHOWN = 400
_MESSAGE = re.compile(r'Failure \{ message: "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class ReplayTrouble:
    """Open workflow that the installed code would not go on with."""

    workflow: str
    diverges: bool
    """Whether the code would do other commands; False if it fails on the history, or a key for that is missing."""
    reason: str


@dataclass(frozen=True)
class Checked:
    """Result of replaying all open workflows: their number, and the troubles."""

    workflows: int
    troubles: tuple[ReplayTrouble, ...]


async def check_open_runs(client: Client, replayer: Replayer, task_queue: str | None = None) -> Checked:
    """Replay the history of every open run and invocation, of one task queue or of the whole namespace.

    Raises ConnectionFailed.
    """
    query = _OPEN if task_queue is None else f"{_OPEN} AND TaskQueue = '{quoted(task_queue)}'"
    workflows, troubles = 0, list[ReplayTrouble]()
    try:
        async with replayer.workflow_replay_iterator(_histories(client, query)) as results:
            async for result in results:
                workflows += 1
                if (failure := result.replay_failure) is not None:
                    diverges = isinstance(failure, NondeterminismError)
                    troubles.append(ReplayTrouble(result.history.workflow_id, diverges, _reason(failure)))
    except RPCError as error:
        raise ConnectionFailed(
            f"the open runs cannot be read: {error.message}",
            next_step="Check the namespace, and that the server answers.",
        ) from error
    return Checked(workflows, tuple(sorted(troubles, key=lambda trouble: trouble.workflow)))


def _reason(failure: Exception) -> str:
    """Return a failure on one line, without the SDK's own types around it and without stack traces."""
    text = str(failure)
    message = _MESSAGE.search(text)
    return " ".join((message[1] if message else text).split())[:_SHOWN]


async def _histories(client: Client, query: str) -> AsyncIterator[WorkflowHistory]:
    """Yield the histories of the workflows of a query, as the server keeps them. Raises RPCError."""
    async for execution in client.list_workflows(query):
        try:
            yield await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        except RPCError as error:
            # The workflow has ended, and was deleted, since it was listed.
            if not is_missing(error):
                raise


def main() -> None:
    """Check, print the result, and exit with 0 if all workflows would go on, else with 1."""
    # Log lines of a replay are in the result; the SDK would write them to stdout.
    logging.basicConfig(level=logging.CRITICAL)
    install_runtime("", None)
    parser = argparse.ArgumentParser(prog="migrate-check")
    parser.add_argument("--workshop", type=Path, default=None)
    parser.add_argument("--embedded", default=None, help="the embedded server's address")
    parser.add_argument("--task-queue", default=None, help="only what is open on this one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        checked = asyncio.run(_check(arguments.workshop, arguments.embedded, arguments.task_queue))
        code = 1 if checked.troubles else 0
        _print(checked, as_json=arguments.json)
    except LlmDoError as error:
        print(f"llm-do-temporal: {error}", file=sys.stderr)
        if error.next_step:
            print(error.next_step, file=sys.stderr)
        code = error.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    # A process that has used the Temporal client can abort while Python exits; leave before it can.
    os._exit(code)


async def _check(workshop: Path | None, embedded: str | None, task_queue: str | None) -> Checked:
    client = await (connect_embedded(embedded, workshop) if embedded else connect(Connection(), workshop))
    return await check_open_runs(client, build_replayer(workshop), task_queue)


def _print(checked: Checked, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(checked)))
        return
    for trouble in checked.troubles:
        fate = "would diverge" if trouble.diverges else "cannot be replayed"
        print(f"{trouble.workflow}: {fate}: {trouble.reason}")
    bad = len(checked.troubles)
    print(f"replayed {checked.workflows} open workflows: {f'{bad} would not go on' if bad else 'all would go on'}")


if __name__ == "__main__":
    main()
