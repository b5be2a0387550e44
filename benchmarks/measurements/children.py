"""Eight delegations in one turn: how much longer they take than their model does, and whether their usage counts."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from benchmarks.contenders.contender import executions
from benchmarks.contenders.plans import Plan
from benchmarks.runner import run_alone
from benchmarks.stage import stage
from benchmarks.table import Row, Value, at_most

CHILDREN, CHILD_TURNS, TURN_SECONDS = 8, 3, 0.5
IDEAL_SECONDS = CHILD_TURNS * TURN_SECONDS


async def measure(quick: bool) -> list[Row]:
    """Alternating runs; medians. The time is that between the caller's two requests."""
    over: defaultdict[str, list[float]] = defaultdict(list)
    counted: dict[str, Value] = {}
    workflows: dict[str, Value] = {"bare": "1 for all", "DBOS": "1 for all"}
    child = Plan(job="", turns=CHILD_TURNS - 1, wait=TURN_SECONDS)
    async with stage() as place:
        for number in range(1 if quick else 3):
            for one in place.contenders:
                job = f"{one.name}-children-{number}"
                said = await one.run("parent", Plan(job=job, tool="agent", width=CHILDREN, child=child))
                asked = await place.asked(job)
                caller = [each.at for each in asked if each.job == job]
                over[one.name].append(caller[1] - caller[0] - IDEAL_SECONDS)
                counted[one.name] = "yes" if said == len(asked) else f"no: {said} of {len(asked)}"
        found = len(await executions(place.ours.place.temporal, f"{place.ours.name}-children-0"))
    workflows["ours"] = f"{found - 1} for {CHILDREN}"
    seconds = {name: median(values) for name, values in over.items()}
    title = f"{CHILDREN} children in one turn, {CHILD_TURNS} turns each of {TURN_SECONDS} s: overhead over the ideal"
    return [
        at_most(Row(title, seconds, "s"), bare=1),
        Row("workflows of the children", workflows, "", "one each", found - 1 == CHILDREN),
        Row("usage of the children counted in the parent", counted, "", "yes", counted["ours"] == "yes"),
    ]


if __name__ == "__main__":
    run_alone(measure)
