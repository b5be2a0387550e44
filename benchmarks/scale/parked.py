"""Thousands of runs that wait for a person: how fast they get there, what they hold, how they come back."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import defaultdict
from functools import partial
from statistics import median

from benchmarks.contenders.plans import Plan
from benchmarks.runner import all_at_once
from benchmarks.scale.doors import MS, Browser, called, commanded
from benchmarks.scale.figures import Figures
from benchmarks.scale.site import Site
from llm_do_temporal.client.open_questions import read_groups
from llm_do_temporal.messages.runs import StartRunInput

AT_ONCE = 50
STEPS = (0.25, 0.5, 1.0)
DECIDED = 5
COMMAND_TIMES = 3
KB = 1_000
"""In a MB."""


async def measure_parked(site: Site, runs: int) -> Figures:
    """Park so many runs in three steps, look after each, then kill all worker services and go on."""
    steps = [round(runs * share) for share in STEPS]
    restarted = f"{runs:,}, after the restart"
    figures = Figures("parked runs", [*(f"{count:,}" for count in (0, *steps)), restarted])
    await site.settle()
    before = _note_memory(site, figures, "0")
    for first, end in zip((0, *steps), steps, strict=False):
        column = f"{end:,}"
        began = time.monotonic()
        await _park(site, first, end)
        figures.note(column, "runs a second, from one step to the next", (end - first) / (time.monotonic() - began))
        await site.settle()
        memory = _note_memory(site, figures, column)
        for group, value in memory.items():
            figures.note(column, f"{group}: growth a parked run", (value - before[group]) / end * KB, "KB")
        await _look(site, figures, column)
        print(figures.markdown(), file=sys.stderr, flush=True)
    await _decide(site, figures, f"{runs:,}", runs)
    await site.settle()
    _note_memory(site, figures, restarted)
    return figures


async def _park(site: Site, first: int, end: int) -> None:
    async def start(number: int) -> None:
        plan = Plan(job=_run(number), tool="guarded")
        await site.client.start(StartRunInput(worker="asker", prompt=plan.prompt()), run=plan.job)

    await all_at_once([partial(start, number) for number in range(first, end)], AT_ONCE)
    await site.await_waiting(end)


def _note_memory(site: Site, figures: Figures, column: str) -> dict[str, float]:
    groups: defaultdict[str, float] = defaultdict(float)
    for name, value in site.memory().items():
        groups[_group(name, len(site.services))] += value
    figures.note_all(column, {f"{group}: memory": value for group, value in groups.items()}, "MB")
    groups["databases on disk"] = site.database_mb()
    figures.note(column, "databases on disk", groups["databases on disk"], "MB")
    return groups


def _group(process: str, services: int) -> str:
    if process.startswith("worker-"):
        return f"{services} worker services"
    return "Temporal server" if process.startswith("temporal-") else process


async def _look(site: Site, figures: Figures, column: str) -> None:
    client = site.client
    figures.note(column, "`llm-do-temporal list`", await commanded(site, "list", times=COMMAND_TIMES), "ms")
    figures.note(column, "`llm-do-temporal approvals`", await commanded(site, "approvals", times=COMMAND_TIMES), "ms")
    figures.note(column, "list of runs in one process (`client.runs`)", await called(client.runs), "ms")
    figures.note(column, "inbox in one process (`client.inbox`)", await called(client.inbox), "ms")
    figures.note(column, "all groups in one process (`read_groups`)", await called(partial(read_groups, client)), "ms")
    browser = Browser(site)
    for what, address in (("inbox", "/"), ("list of runs", "/runs"), ("one run", f"/runs/{_run(0)}")):
        opened = await asyncio.to_thread(browser.open, address)
        figures.note(column, f"page: {what}", opened.median, "ms")
        figures.note(column, f"page: {what}, the first time", opened.first, "ms")
        figures.note(column, f"page: {what}, first byte", opened.first_byte, "ms")
        figures.note(column, f"page: {what}, size", opened.size / 1_000, "KB")
    browser.close()


async def _decide(site: Site, figures: Figures, column: str, runs: int) -> None:
    chosen = random.Random(15).sample(range(runs), DECIDED + 1)
    took: list[float] = []
    for number in chosen[:DECIDED]:
        began = time.time()
        took.append(await site.decide(_run(number)) - began)
    figures.note(column, f"decision → tool starts, median of {DECIDED} runs at random", median(took) * MS, "ms")
    began = time.time()
    await asyncio.to_thread(site.restart_services)
    figures.note(
        column,
        "SIGKILL of all worker services → tool of a decided run starts",
        await _after(site, chosen[-1], began),
        "s",
    )
    await asyncio.to_thread(site.await_services)
    figures.note(column, "SIGKILL of all worker services → all are ready", time.time() - began, "s")


async def _after(site: Site, number: int, began: float) -> float:
    return await site.decide(_run(number)) - began


def _run(number: int) -> str:
    return f"parked-{number}"
