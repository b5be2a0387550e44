"""A tree of a thousand delegations: ours as workflows of their own, the bare peer's within one workflow.

Ours then once more with the server's database in memory, which is so fast that a process may take on too much.
"""

from __future__ import annotations

import time

from benchmarks.contenders.ours import Ours
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.runner import complete, run_alone
from benchmarks.servers import on_cluster
from benchmarks.stage import ON_TEMPORAL, stage
from benchmarks.table import Row, Value, at_most

STALL_SECONDS = 45
"""One workflow that holds the whole tree may be silent for long."""


async def measure(quick: bool) -> list[Row]:
    """One tree each: 1 + 9 + 9 * 10 + 9 * 10 * 10."""
    widths = (2, 3) if quick else (9, 10, 10)
    count = _count(widths)
    seconds: dict[str, Value] = {}
    counted: dict[str, Value] = {}
    again: dict[str, Value] = {}
    async with stage(ON_TEMPORAL) as place:
        for one in place.contenders:
            job, began = f"{one.name}-tree", time.monotonic()
            try:
                said = await complete(place, one, "node", _plan(widths, job), STALL_SECONDS)
            except NotMeasured as reason:
                seconds[one.name] = str(reason).replace("at turn", "after so many turns:")
                continue
            seconds[one.name] = time.monotonic() - began
            asked = await place.asked(job)
            turns = len({(each.job, each.turn) for each in asked})
            counted[one.name] = "yes" if said == turns else f"no: {said} of {turns}"
            again[one.name] = float(len(asked) - turns)
    rows = [
        Row(f"a delegation tree of {count} invocations", seconds, "s"),
        Row("its usage counted at the top", counted, "", "yes", counted.get("ours") == "yes"),
        at_most(Row("its turns asked again by a busy process", again), limit=0),
    ]
    return rows if on_cluster() else [*rows, *await _in_memory(widths, count)]


async def _in_memory(widths: tuple[int, ...], count: int) -> list[Row]:
    async with stage((Ours,), in_memory=True) as place:
        began = time.monotonic()
        await complete(place, place.ours, "node", _plan(widths, "ours-quick"), STALL_SECONDS)
        seconds = time.monotonic() - began
        asked = await place.asked("ours-quick")
    again = float(len(asked) - len({(each.job, each.turn) for each in asked}))
    where = "the server's database in memory"
    return [
        Row(f"a delegation tree of {count} invocations, {where}", {"ours": seconds}, "s"),
        at_most(Row(f"its turns asked again by a busy process, {where}", {"ours": again}), limit=0),
    ]


def _plan(widths: tuple[int, ...], job: str = "") -> Plan:
    if not widths:
        return Plan(job=job, turns=0)
    return Plan(job=job, tool="node", width=widths[0], child=_plan(widths[1:]))


def _count(widths: tuple[int, ...]) -> int:
    return 1 + widths[0] * _count(widths[1:]) if widths else 1


if __name__ == "__main__":
    run_alone(measure)
