"""Time, processor time and events per turn of one run."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from benchmarks.contenders.contender import Contender, history_size
from benchmarks.contenders.plans import Plan
from benchmarks.runner import run_alone
from benchmarks.stage import Stage, stage
from benchmarks.table import Row, at_most

MS = 1000


async def measure(quick: bool) -> list[Row]:
    """Alternating runs; medians."""
    turns, rounds = (8, 1) if quick else (80, 3)
    wall: defaultdict[str, list[float]] = defaultdict(list)
    cpu: defaultdict[str, list[float]] = defaultdict(list)
    events: dict[str, float] = {}
    async with stage() as place:
        for number in range(rounds):
            for one in place.contenders:
                job = f"{one.name}-turns-{number}"
                seconds, busy = await _run(place, one, Plan(job=job, turns=turns))
                wall[one.name].append(seconds / turns * MS)
                cpu[one.name].append(busy / turns * MS)
                if one.name != "DBOS":
                    events[one.name] = (await history_size(one.place.temporal, job))[1] / turns
    of = f"run of {turns}"
    return [
        at_most(Row(f"wall time per turn, {of}", _medians(wall), "ms"), bare=0.35, DBOS=1.1),
        at_most(Row(f"worker CPU per turn, {of}", _medians(cpu), "ms"), bare=0.6),
        Row(f"history events per turn, {of}", events),
    ]


async def _run(place: Stage, one: Contender, plan: Plan) -> tuple[float, float]:
    """Seconds from the first request to the last, and processor seconds of the whole run."""
    before = one.running.cpu_seconds()
    await one.run("agent", plan)
    busy = one.running.cpu_seconds() - before
    asked = await place.asked(plan.job)
    return asked[-1].at - asked[0].at, busy


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in found.items()}


if __name__ == "__main__":
    run_alone(measure)
