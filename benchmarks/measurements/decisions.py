"""From a person's decision to the start of the tool."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from statistics import median

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.plans import Plan
from benchmarks.contenders.tools import effects
from benchmarks.processes import NotMeasured
from benchmarks.runner import run_alone
from benchmarks.stage import stage
from benchmarks.table import Row, at_most

MS = 1000
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 120


async def measure(quick: bool) -> list[Row]:
    """Runs that wait, decided one after the other, alternating; medians."""
    count = 3 if quick else 20
    found: defaultdict[str, list[float]] = defaultdict(list)
    async with stage() as place:
        for one in place.contenders:
            runs = [f"{one.name}-wait-{number}" for number in range(count)]
            for run in runs:
                await one.start("asker", Plan(job=run, tool="guarded"))
            await one.wait_parked(runs)
        for number in range(count):
            for one in place.contenders:
                found[one.name].append(await decide(one, f"{one.name}-wait-{number}"))
    seconds = {name: median(values) * MS for name, values in found.items()}
    return [at_most(Row(f"decision → tool starts, median of {count}", seconds, "ms"), bare=1.1)]


async def decide(one: Contender, run: str) -> float:
    """Approve what the run waits for; seconds until its tool starts, after which the run is let finish."""
    decided = time.time()
    await one.decide(run)
    while not (started := effects("guarded", f"{run}.0.0", one.place.effects)):
        if time.time() > decided + PATIENCE_SECONDS:
            raise NotMeasured(f"the tool of '{run}' did not start within {PATIENCE_SECONDS} s of the decision")
        await asyncio.sleep(POLL_SECONDS)
    await one.finish(run)
    return started[0] - decided


if __name__ == "__main__":
    run_alone(measure)
