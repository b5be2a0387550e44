"""Runs that wait for a person: how long until they all do, what they hold, and how they come back after a restart."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.plans import Plan
from benchmarks.measurements.decisions import decide
from benchmarks.runner import all_at_once, run_alone
from benchmarks.stage import stage
from benchmarks.table import Row, Value, at_most

IDLE_SHARE = 0.05
"""Of a processor: a service that uses less has settled."""
SAMPLE_SECONDS = 1.0
SAMPLES = 60


async def measure(quick: bool) -> list[Row]:
    """One contender after the other; ours then with twice as many."""
    count = 10 if quick else 500
    each: dict[str, Value] = {}
    seconds: dict[str, Value] = {}
    back: dict[str, Value] = {}
    more: dict[str, Value] = {}
    async with stage() as place:
        for one in place.contenders:
            before = await _settled_mb(one)
            began = time.monotonic()
            await _park(one, 0, count)
            seconds[one.name] = time.monotonic() - began
            each[one.name] = (await _settled_mb(one) - before) / count
            back[one.name] = await _restart(one, 0)
            if one is not place.ours:
                await all_at_once([partial(one.drop, _run(one, number)) for number in range(1, count)])
        ours = place.ours
        await _park(ours, count, 2 * count)
        more["ours"] = await _settled_mb(ours)
        back_with_more = await _restart(ours, 1)
        after = await _settled_mb(ours)
    return [
        at_most(Row(f"memory per parked run, of {count}", each, "MB"), limit=0.1),
        at_most(Row(f"{count} runs started and parked", seconds, "s"), bare=0.5),
        Row(f"service restarted with {count} parked: until a decision takes effect", back, "s"),
        Row(f"memory of the service with {2 * count} parked", more, "MB"),
        Row(f"service restarted with {2 * count} parked: until a decision takes effect", {"ours": back_with_more}, "s"),
        Row("memory of the service after that", {"ours": after}, "MB"),
    ]


async def _park(one: Contender, first: int, end: int) -> None:
    runs = [_run(one, number) for number in range(first, end)]
    await all_at_once([partial(one.start, "asker", Plan(job=run, tool="guarded")) for run in runs])
    await one.wait_parked(runs)


async def _restart(one: Contender, number: int) -> float:
    """Kill the service, start it again and decide one run; seconds until its tool starts."""
    await asyncio.to_thread(one.kill)
    began = time.monotonic()
    await one.serve()
    await decide(one, _run(one, number))
    return time.monotonic() - began


async def _settled_mb(one: Contender) -> float:
    """The memory of the service once it has nothing more to do."""
    for _ in range(SAMPLES):
        before = one.running.cpu_seconds()
        await asyncio.sleep(SAMPLE_SECONDS)
        if one.running.cpu_seconds() - before < IDLE_SHARE * SAMPLE_SECONDS:
            break
    return one.running.memory_mb()


def _run(one: Contender, number: int) -> str:
    return f"{one.name}-parked-{number}"


if __name__ == "__main__":
    run_alone(measure)
