"""Thousands of open questions among ten thousand runs: how long the inbox, its groups and one of them take.

`python -m benchmarks.scale.questions [--runs 10000] [--questions 2000]`, on a development server of its own. The runs
begin with the memo and the search attributes of runs that wait, and no worker service takes them up: a list tells no
difference. Questions are of twenty groups, four a run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import httpx2
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from benchmarks.contenders.ours import command
from benchmarks.machine import describe
from benchmarks.processes import NotMeasured
from benchmarks.runner import all_at_once, end_politely
from benchmarks.scale.figures import Figures
from benchmarks.servers import start_server
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.groups import read_group, read_groups
from llm_do_temporal.messages.base import (
    PENDING_ATTRIBUTE,
    PENDING_MEMO,
    RUN_MEMO,
    RUN_WORKFLOW,
    STATE_ATTRIBUTE,
    WORKER_ATTRIBUTE,
)
from llm_do_temporal.messages.runs import PendingApprovalMemo, RunMemo
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.groups import group_of
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.uses import CapabilityUse
from llm_do_temporal.ui.app import build_app
from llm_do_temporal.ui.security.settings import UiSettings
from llm_do_temporal.ui.security.users import TokenAccess

HOST = "127.0.0.1:8234"
TOKEN = "t" * 24
AT_ONCE = 50
TIMES = 5
COMMAND_TIMES = 3
PER_RUN = 4
GROUPS = 20
PATIENCE_SECONDS = 120
_TREE = Tree(mounts=(Mount(at="/", root="files"),))
_ATTRIBUTES = {
    STATE_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    PENDING_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_INT,
    WORKER_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
}


async def measure(runs: int, questions: int) -> Figures:
    """Start so many runs, of which some ask, and look at what waits. Raises NotMeasured."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        server = await start_server(stack, folder)
        await _register(server.temporal)
        asking = questions // PER_RUN
        await all_at_once(
            [partial(_begin, server.temporal, number, asks=number < asking) for number in range(runs)], AT_ONCE
        )
        await _await_listed(server.temporal, runs)
        figures = Figures("open questions", [f"{asking * PER_RUN:,} of {runs:,} runs"])
        await _look(LlmDoClient(server.temporal), figures, server.address, asking * PER_RUN)
        return figures


async def _look(client: LlmDoClient, figures: Figures, address: str, questions: int) -> None:
    (column,) = figures.columns
    listed = await read_groups(LlmDoClient(client.temporal))
    if sum(len(group.entries) for group in listed.groups) != questions or len(listed.groups) != GROUPS:
        raise NotMeasured(f"{len(listed.groups)} groups are listed, and {GROUPS} were to be there")
    key = listed.groups[0].key
    for what, call in (
        ("inbox (`client.inbox`)", client.inbox),
        ("all groups (`read_groups`)", partial(read_groups, client)),
        ("one group (`read_group`)", partial(read_group, client, key)),
    ):
        took = [await _seconds(call) for _ in range(TIMES + 1)]
        figures.note(column, f"{what}, the first time", took[0] * 1_000, "ms")
        figures.note(column, what, median(took[1:]) * 1_000, "ms")
    app = build_app(UiSettings(TokenAccess({"bench": TOKEN}), (HOST,)), client)
    transport = httpx2.ASGITransport(app=app)
    typed = {"sec-fetch-site": "none"}
    async with httpx2.AsyncClient(
        transport=transport, base_url=f"http://{HOST}", follow_redirects=True, headers=typed
    ) as browser:
        await browser.get(f"/sign-in?token={TOKEN}")
        for what, page in (("inbox", "/"), ("group", f"/groups/{key}")):
            took = [await _seconds(partial(_open, browser, page)) for _ in range(TIMES)]
            figures.note(column, f"page: {what}", median(took) * 1_000, "ms")
    for words in (("approvals", "--group"), ("approvals", "--group", "--limit", "1000")):
        took = [await asyncio.to_thread(_command, address, *words) for _ in range(COMMAND_TIMES)]
        figures.note(column, f"`llm-do-temporal {' '.join(words)}`, with the start of Python", median(took), "s")


async def _seconds(what: Callable[[], Awaitable[object]]) -> float:
    began = time.monotonic()
    await what()
    return time.monotonic() - began


async def _open(browser: httpx2.AsyncClient, address: str) -> None:
    answer = await browser.get(address)
    if answer.status_code != 200:
        raise NotMeasured(f"{address} answers {answer.status_code}")


def _command(address: str, *words: str) -> float:
    began = time.monotonic()
    variables = os.environ | {"TEMPORAL_ADDRESS": address}
    done = subprocess.run(command(*words), env=variables, capture_output=True, check=False)
    if done.returncode != 0:
        raise NotMeasured(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.decode().strip()}")
    return time.monotonic() - began


async def _register(temporal: Client) -> None:
    request = AddSearchAttributesRequest(namespace=temporal.namespace, search_attributes=_ATTRIBUTES)
    await temporal.operator_service.add_search_attributes(request)


async def _begin(temporal: Client, number: int, *, asks: bool) -> None:
    run = f"run-{number}"
    pending = [_question(run, PER_RUN * number + each, each) for each in range(PER_RUN)] if asks else []
    attributes = TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(STATE_ATTRIBUTE), "waiting" if asks else "running"),
            SearchAttributePair(SearchAttributeKey.for_int(PENDING_ATTRIBUTE), len(pending)),
            SearchAttributePair(SearchAttributeKey.for_keyword(WORKER_ATTRIBUTE), "clerk"),
        ]
    )
    memo = RunMemo(worker="clerk", started_by="bench", task=f"evaluate what came in on day {number}")
    await temporal.start_workflow(
        RUN_WORKFLOW,
        id=run,
        task_queue="nobody-polls-this",
        memo={RUN_MEMO: memo, PENDING_MEMO: pending},
        search_attributes=attributes,
    )


def _question(run: str, number: int, each: int) -> PendingApprovalMemo:
    path = f"/day-{number % GROUPS}/report-{number}.md"
    args = {"path": path, "content": f"# Report {number}\n\n" + "A line of a report.\n" * 20}
    group = group_of("write_file", args, [CapabilityUse(name="sandbox.write", payload={"path": path})], _TREE)
    return PendingApprovalMemo(
        id=f"a{each + 1}",
        invocation=run,
        key=f"main:{each}",
        worker="clerk",
        path="main",
        tool="write_file",
        summary=f"write_file {path} ({len(args['content'])} bytes)",
        asked_at=datetime.now(UTC) - timedelta(seconds=number),
        digest=digest_of([run, each]),
        group=group,
    )


async def _await_listed(temporal: Client, runs: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (await temporal.count_workflows(f"WorkflowType = '{RUN_WORKFLOW}'")).count < runs:
        if time.monotonic() > deadline:
            raise NotMeasured(f"not all of {runs} runs are listed after {PATIENCE_SECONDS} s")
        await asyncio.sleep(0.2)


def main() -> int:
    """Measure, and print a table; 1 where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.questions", description="Many open questions.")
    parser.add_argument("--runs", type=int, default=10_000, help="how many runs are open (%(default)s)")
    parser.add_argument("--questions", type=int, default=2_000, help="how many questions wait (%(default)s)")
    chosen = parser.parse_args()
    end_politely()
    print(describe(), flush=True)
    try:
        print(f"\n{asyncio.run(measure(chosen.runs, chosen.questions)).markdown()}", flush=True)
    except NotMeasured as reason:
        print(f"not measured: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
