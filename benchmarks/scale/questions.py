"""Ten thousand runs, among them some that ask thousands of questions: times of the inbox, the list, a search, charts.

`python -m benchmarks.scale.questions [--runs 10000] [--questions 2000]`, on a development server of its own, or with
`BENCH_CLUSTER=1` on PostgreSQL. First all runs are open, and those that ask have four questions each, of twenty groups;
then all that ask nothing end. No worker service takes them up: a list tells no difference.
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
from functools import partial
from pathlib import Path
from statistics import median

import httpx2

from benchmarks.contenders.ours import command
from benchmarks.machine import describe
from benchmarks.processes import NotMeasured
from benchmarks.runner import end_politely
from benchmarks.scale.figures import Figures
from benchmarks.scale.unserved import GROUPS, PER_RUN, begin_runs, end_runs
from benchmarks.servers import start_server
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.open_questions import read_group, read_groups
from llm_do_temporal.policy.run_filter import RunFilter
from llm_do_temporal.ui.access import TokenAccess
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.requests import UiSettings

HOST = "127.0.0.1:8234"
TOKEN = "t" * 24
TIMES = 5
COMMAND_TIMES = 3
MOST_OPENINGS = 200
"""Times that the charts are opened until they are whole."""
_NONE = "no run has this"
_UNREAD = "more are being read"
"""Words of the charts while they are not whole."""


class Visitor:
    """A page of its own, which has read nothing yet, and a person who is signed in at it."""

    def __init__(self, client: LlmDoClient) -> None:
        app = build_app(UiSettings(TokenAccess({"bench": TOKEN}), (HOST,)), LlmDoClient(client.temporal))
        self._browser = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            base_url=f"http://{HOST}",
            follow_redirects=True,
            headers={"sec-fetch-site": "none"},
        )

    async def sign_in(self) -> None:
        """Follow the link with the token."""
        await self._browser.get(f"/sign-in?token={TOKEN}")

    async def open(self, address: str) -> str:
        """Return the page at this address. Raises NotMeasured."""
        answer = await self._browser.get(address)
        if answer.status_code != 200:
            raise NotMeasured(f"{address} answers {answer.status_code}")
        return answer.text


async def measure(runs: int, questions: int) -> Figures:
    """Start so many runs, of which some ask, and look at them; then end the others. Raises NotMeasured."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        server = await start_server(stack, folder)
        asked = await begin_runs(server.temporal, runs, questions)
        silent = runs - asked // PER_RUN
        is_open, has_ended = f"{asked:,} questions, {runs:,} open runs", f"{silent:,} of them ended"
        figures, client = Figures("times", [is_open, has_ended]), LlmDoClient(server.temporal)
        await _look(client, figures, is_open, server.address, asked)
        await end_runs(server.temporal, silent)
        await _look(client, figures, has_ended, server.address, asked)
        await _chart(client, figures, has_ended)
        return figures


async def _look(client: LlmDoClient, figures: Figures, column: str, address: str, questions: int) -> None:
    listed = await read_groups(LlmDoClient(client.temporal))
    if sum(len(group.entries) for group in listed.groups) != questions or len(listed.groups) != GROUPS:
        raise NotMeasured(f"{len(listed.groups)} groups are listed, and {GROUPS} were to be there")
    key = listed.groups[0].key
    for what, call in (
        ("inbox (`client.inbox`)", client.inbox),
        ("all groups (`read_groups`)", partial(read_groups, client)),
        ("one group (`read_group`)", partial(read_group, client, key)),
        ("list of 50 (`client.runs`)", client.runs),
        ("list of 50 of a worker", partial(client.runs, RunFilter(worker="clerk"))),
        ("search for words that no run has (`client.runs`)", partial(client.runs, RunFilter(text=_NONE))),
    ):
        await _note(figures, column, what, call)
    visitor = Visitor(client)
    await visitor.sign_in()
    for what, page in (
        ("inbox", "/"),
        ("one group", f"/groups/{key}"),
        ("list", "/runs"),
        ("list of a worker", "/runs?worker=clerk"),
        ("search for words that no run has", f"/runs?text={_NONE.replace(' ', '+')}"),
    ):
        await _note(figures, column, f"page: {what}", partial(visitor.open, page))
    for words in (("approvals", "--group"), ("approvals",), ("list",), ("list", "--text", _NONE)):
        took = [await asyncio.to_thread(_command, address, *words) for _ in range(COMMAND_TIMES)]
        said = " ".join(f"'{word}'" if " " in word else word for word in words)
        figures.note(column, f"`llm-do-temporal {said}`, with the start of Python", median(took), "ms")


async def _chart(client: LlmDoClient, figures: Figures, column: str) -> None:
    """Open the charts at a page that was just started, again and again until they are whole."""
    visitor = Visitor(client)
    await visitor.sign_in()
    took: list[float] = []
    page = _UNREAD
    while _UNREAD in page:
        if len(took) == MOST_OPENINGS:
            raise NotMeasured(f"the charts are not whole after they were opened {MOST_OPENINGS} times")
        began = time.monotonic()
        page = await visitor.open("/charts")
        took.append((time.monotonic() - began) * 1_000)
    await _note(figures, column, "page: charts that are whole", partial(visitor.open, "/charts"))
    figures.note(column, "page: charts, the first time", took[0], "ms")
    figures.note(column, "page: charts, slowest time until they were whole", max(took), "ms")
    figures.note(column, "openings until the charts were whole", len(took))
    figures.note(column, "time of all of these together", sum(took) / 1_000, "s")


async def _note(figures: Figures, column: str, what: str, call: Callable[[], Awaitable[object]]) -> None:
    took: list[float] = []
    for _ in range(TIMES + 1):
        began = time.monotonic()
        await call()
        took.append((time.monotonic() - began) * 1_000)
    figures.note(column, f"{what}, the first time", took[0], "ms")
    figures.note(column, what, median(took[1:]), "ms")


def _command(address: str, *words: str) -> float:
    began = time.monotonic()
    variables = os.environ | {"TEMPORAL_ADDRESS": address}
    done = subprocess.run(command(*words), env=variables, capture_output=True, check=False)
    if done.returncode != 0:
        raise NotMeasured(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.decode().strip()}")
    return (time.monotonic() - began) * 1_000


def main() -> int:
    """Measure, and print a table; 1 where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.questions", description="Many open questions.")
    parser.add_argument("--runs", type=int, default=10_000, help="how many runs there are (%(default)s)")
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
