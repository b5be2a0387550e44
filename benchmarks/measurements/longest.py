"""A long run, with a result of 4 KB each turn: how far it gets, and whether it gets slower."""

from __future__ import annotations

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import CONTEXT_TOKENS
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.runner import complete, run_alone
from benchmarks.stage import ON_TEMPORAL, Asked, Stage, stage
from benchmarks.table import Row, Value

RESULT_CHARS = 4096
SLOWER = 1.3


async def measure(quick: bool) -> list[Row]:
    """One run each; the bare peer as far as it gets."""
    turns, edge = (20, 5) if quick else (2000, 100)
    reached: dict[str, Value] = {}
    slower: dict[str, Value] = {}
    told: dict[str, Value] = {}
    async with stage(ON_TEMPORAL) as place:
        for one in place.contenders:
            reached[one.name], asked = await _run(place, one, "agent", turns)
            slower |= _slower(one, asked, turns, edge)
        _, asked = await _run(place, place.ours, "told", turns)
        told |= _slower(place.ours, asked, turns, edge)
    times = f"≤ {SLOWER} times"
    return [
        Row("longest run, 4 KB results", reached, "turns", f"{turns:,} turns", reached["ours"] == turns),
        Row(f"its last {edge} turns over its first {edge}, the model told everything", slower, "times"),
        Row(f"the same with `max_context_tokens: {CONTEXT_TOKENS}`", told, "times", times, _at_most(told.get("ours"))),
    ]


def _slower(one: Contender, asked: list[Asked], turns: int, edge: int) -> dict[str, Value]:
    if len(asked) <= turns:
        return {}
    return {one.name: _span(asked[-edge - 1 :]) / _span(asked[: edge + 1])}


def _at_most(value: Value | None) -> bool:
    return isinstance(value, float) and value <= SLOWER


async def _run(place: Stage, one: Contender, kind: str, turns: int) -> tuple[Value, list[Asked]]:
    job = f"{one.name}-long-{kind}"
    try:
        await complete(place, one, kind, Plan(job=job, turns=turns, arguments={"size": RESULT_CHARS}))
    except NotMeasured as reason:
        return str(reason), await place.asked(job)
    return float(turns), await place.asked(job)


def _span(asked: list[Asked]) -> float:
    return asked[-1].at - asked[0].at


if __name__ == "__main__":
    run_alone(measure)
