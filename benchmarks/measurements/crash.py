"""The worker process is killed in the middle of a model turn and of tools, and started again at once.

Three runs are open at the kill: one waits for its model, one for a tool that may be repeated, one for a tool that may
not.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median

from benchmarks.contenders.contender import Contender, until
from benchmarks.contenders.plans import Plan
from benchmarks.contenders.tools import effects
from benchmarks.runner import run_alone
from benchmarks.stage import ALL, Stage, stage
from benchmarks.table import Row, Value, at_most

HELD_TURN = 5
LIMIT_SECONDS = 6


@dataclass(frozen=True)
class Found:
    """What one kill showed; times are seconds from the kill to the next request that the model got."""

    mid_model: float
    mid_tool: float
    executions: int
    """Of the tool that may not be repeated."""
    asked_again: int
    """Turns that were answered before the kill."""


async def measure(quick: bool) -> list[Row]:
    """Alternating kills; medians. Quick leaves out the bare peer, which takes a minute to notice."""
    kinds = ALL[1:] if quick else ALL
    found: defaultdict[str, list[Found]] = defaultdict(list)
    async with stage(kinds) as place:
        for number in range(1 if quick else 2):
            for one in place.contenders:
                found[one.name].append(await _kill(place, one, f"{one.name}-{number}"))
    model = {name: median(each.mid_model for each in kills) for name, kills in found.items()}
    tool = {name: median(each.mid_tool for each in kills) for name, kills in found.items()}
    times = {name: max(each.executions for each in kills) for name, kills in found.items()}
    effect: dict[str, Value] = {name: f"run {count} times" for name, count in times.items()}
    if times["ours"] == 1:
        effect["ours"] = "once, then a person decides"
    again = {name: sum(each.asked_again for each in kills) for name, kills in found.items()}
    return [
        at_most(Row("worker SIGKILLed mid-model: next model request", model, "s"), limit=LIMIT_SECONDS),
        at_most(Row("worker SIGKILLed mid-tool: next model request", tool, "s"), limit=LIMIT_SECONDS),
        Row("non-idempotent tool running at the kill", effect, "", "once", times["ours"] == 1),
        at_most(Row("completed turns asked again after a kill", again), limit=0),
    ]


async def _kill(place: Stage, one: Contender, name: str) -> Found:
    asking, again, once = f"{name}-asking", f"{name}-again", f"{name}-once"
    await one.start("agent", Plan(job=asking, turns=HELD_TURN + 2, hold=HELD_TURN))
    await one.start("crasher", Plan(job=again, tool="again"))
    await one.start("crasher", Plan(job=once, tool="once"))
    await place.wait_asked(asking, HELD_TURN)
    for tool, run in (("again", again), ("once", once)):
        await until(lambda tool=tool, run=run: started(place, tool, run), f"the tool of '{run}' starts")
    killed = time.time()
    await asyncio.to_thread(one.kill)
    await one.serve()
    mid_model = (await place.wait_asked(asking, HELD_TURN, times=2)).at - killed
    mid_tool = (await place.wait_asked(again, 1)).at - killed
    await _settle(place, one, once)
    await one.finish(asking)
    asked = Counter(each.turn for each in await place.asked(asking))
    return Found(
        mid_model,
        mid_tool,
        len(effects("once", f"{once}.0.0", place.effects)),
        sum(count - 1 for turn, count in asked.items() if turn < HELD_TURN),
    )


async def started(place: Stage, tool: str, run: str) -> bool:
    """Whether the tool of the run's first turn has started."""
    return bool(effects(tool, f"{run}.0.0", place.effects))


async def _settle(place: Stage, one: Contender, run: str) -> None:
    """Wait until the run that must not repeat its tool goes on, or waits for a person."""
    if one.name == "ours":
        await one.wait_parked([run])
        await one.drop(run)
    else:
        await place.wait_asked(run, 1)


if __name__ == "__main__":
    run_alone(measure)
