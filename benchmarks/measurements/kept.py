"""How many bytes a run leaves behind, and how they grow with its turns."""

from __future__ import annotations

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.runner import complete, run_alone
from benchmarks.stage import Stage, stage
from benchmarks.table import Row, Value, at_most

MB = 1_000_000


async def measure(quick: bool) -> list[Row]:
    """One run of each size: bytes do not vary."""
    few, half, whole = (4, 10, 20) if quick else (40, 100, 200)
    small: dict[str, Value] = {}
    growth: dict[str, Value] = {}
    async with stage() as place:
        for one in place.contenders:
            small[one.name] = await _kept(place, one, few) / MB
            try:
                smaller = await _kept(place, one, half)
                growth[one.name] = await _kept(place, one, whole) / smaller
            except NotMeasured as reason:
                growth[one.name] = str(reason)
    return [
        at_most(Row(f"bytes kept for {few} turns", small, "MB"), limit=0.4),
        at_most(Row(f"growth from {half} to {whole} turns", growth, "times"), limit=2.1),
    ]


async def _kept(place: Stage, one: Contender, turns: int) -> int:
    """Bytes of one run: its histories, and what was stored beside them meanwhile."""
    job = f"{one.name}-kept-{turns}"
    before = one.stored_bytes()
    await complete(place, one, "agent", Plan(job=job, turns=turns))
    return await one.history_bytes(job) + one.stored_bytes() - before


if __name__ == "__main__":
    run_alone(measure)
