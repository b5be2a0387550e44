"""How fast the command line answers."""

from __future__ import annotations

import asyncio
import subprocess
import time
from statistics import median

from benchmarks.contenders.ours import Ours, command
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.runner import run_alone
from benchmarks.stage import stage
from benchmarks.table import Row, at_most


async def measure(quick: bool) -> list[Row]:
    """Medians; `approvals` asks a server that runs, where one approval is pending."""
    times = 2 if quick else 7
    async with stage((Ours,)) as place:
        ours = place.ours
        await ours.start("asker", Plan(job="pending", tool="guarded"))
        await ours.wait_parked(["pending"])
        server = ["--address", ours.place.address, "--workshop", str(ours.place.folder)]
        help_seconds = [await asyncio.to_thread(_seconds, "--help") for _ in range(times)]
        list_seconds = [await asyncio.to_thread(_seconds, "approvals", *server) for _ in range(times)]
    return [
        at_most(Row("`llm-do-temporal --help`", {"ours": median(help_seconds)}, "s"), limit=0.5),
        at_most(Row("`llm-do-temporal approvals`", {"ours": median(list_seconds)}, "s"), limit=1.5),
    ]


def _seconds(*arguments: str) -> float:
    began = time.monotonic()
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasured(f"`{' '.join(arguments)}` exits {done.returncode}: {done.stderr.strip()}")
    return time.monotonic() - began


if __name__ == "__main__":
    run_alone(measure)
