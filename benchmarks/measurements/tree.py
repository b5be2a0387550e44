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
from benchmarks.stage import ON_TEMPORAL, Stage, stage
from benchmarks.table import Row, Value, at_most

STALL_SECONDS = 180
"""Hundreds of invocations that begin at once, and one workflow that holds the whole tree, ask no model for long."""


async def measure(quick: bool) -> list[Row]:
    """One tree each: 1 + 9 + 9 * 10 + 9 * 10 * 10."""
    widths = (2, 3) if quick else (9, 10, 10)
    async with stage(ON_TEMPORAL) as place:
        rows = await _grow(place, widths)
    if on_cluster():
        return rows
    async with stage((Ours,), in_memory=True) as place:
        return [*rows, *await _grow(place, widths, ", the server's database in memory")]


async def _grow(place: Stage, widths: tuple[int, ...], where: str = "") -> list[Row]:
    """One tree of each contender; the rows say `where`."""
    seconds: dict[str, Value] = {}
    counted: dict[str, Value] = {}
    again: dict[str, Value] = {}
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
    return [
        Row(f"a delegation tree of {_count(widths)} invocations{where}", seconds, "s"),
        Row(f"its usage counted at the top{where}", counted, "", "yes", counted.get("ours") == "yes"),
        at_most(Row(f"its turns asked again by a busy process{where}", again), limit=0),
    ]


def _plan(widths: tuple[int, ...], job: str = "") -> Plan:
    if not widths:
        return Plan(job=job, turns=0)
    return Plan(job=job, tool="node", width=widths[0], child=_plan(widths[1:]))


def _count(widths: tuple[int, ...]) -> int:
    return 1 + widths[0] * _count(widths[1:]) if widths else 1


if __name__ == "__main__":
    run_alone(measure)
