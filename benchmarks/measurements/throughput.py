"""Many small runs at once on one worker process: how many end a second, and from where on more do not help."""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.plans import Plan
from benchmarks.runner import all_at_once, run_alone
from benchmarks.stage import ON_TEMPORAL, stage
from benchmarks.table import Row, Value, at_least

TURNS = 2
NEAR = 0.9
"""Of the highest throughput: where this is reached, the process is saturated."""


async def measure(quick: bool) -> list[Row]:
    """Alternating, with more and more runs."""
    levels = (2, 5) if quick else (10, 50, 200)
    rates: defaultdict[str, dict[int, float]] = defaultdict(dict)
    busy: dict[str, Value] = {}
    async with stage(ON_TEMPORAL) as place:
        for level in levels:
            for one in place.contenders:
                rates[one.name][level], share = await _burst(one, level)
                busy[one.name] = share
    top = levels[-1]
    full: dict[str, Value] = {name: str(_saturation(found)) for name, found in rates.items()}
    return [
        at_least(
            Row(f"runs a second of {TURNS + 1} turns, {top} at once, one process (more is better)", _at(rates, top)),
            bare=2,
        ),
        Row(f"processors that the worker process uses, {top} runs at once", busy),
        Row("runs at once from which on more do not help", full),
    ]


async def _burst(one: Contender, level: int) -> tuple[float, float]:
    """Runs a second, and processors in use, for so many runs started together."""
    plans = [Plan(job=f"{one.name}-burst-{level}-{number}", turns=TURNS) for number in range(level)]
    busy, began = one.running.cpu_seconds(), time.monotonic()
    await all_at_once([partial(one.start, "agent", plan) for plan in plans])
    await all_at_once([partial(one.finish, plan.job) for plan in plans])
    seconds = time.monotonic() - began
    return level / seconds, (one.running.cpu_seconds() - busy) / seconds


def _saturation(found: dict[int, float]) -> int:
    return min(level for level, rate in found.items() if rate >= NEAR * max(found.values()))


def _at(rates: dict[str, dict[int, float]], level: int) -> dict[str, float]:
    return {name: found[level] for name, found in rates.items()}


if __name__ == "__main__":
    run_alone(measure)
