"""Figures of docs/how-to/scale.md: `python -m benchmarks.scale [--runs 10000] [--services 5] [--ended 100000]`.

Starts a cluster of its own (docs/how-to/cluster.md), which is gone afterwards, and prints two tables. With 10,000 runs
it keeps two processors busy for half an hour; `--runs 200 --ended 1000` shows that it works.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from benchmarks.machine import describe
from benchmarks.processes import NotMeasured
from benchmarks.runner import end_politely
from benchmarks.scale.ended import measure_ended
from benchmarks.scale.parked import measure_parked
from benchmarks.scale.site import site


def main() -> int:
    """Measure what is asked for; 1 where that cannot be."""
    chosen = _parser().parse_args()
    end_politely()
    began = time.monotonic()
    print(describe(), flush=True)
    try:
        asyncio.run(_measure(chosen))
    except NotMeasured as reason:
        print(f"not measured: {reason}", file=sys.stderr)
        return 1
    print(f"\nTook {(time.monotonic() - began) / 60:.0f} minutes.")
    return 0


async def _measure(chosen: argparse.Namespace) -> None:
    async with site(chosen.services) as place:
        if chosen.ended:
            print(f"\n{(await measure_ended(place, chosen.ended)).markdown()}", flush=True)
        if chosen.runs:
            print(f"\n{(await measure_parked(place, chosen.runs)).markdown()}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Many runs on the cluster.")
    parser.add_argument("--runs", type=int, default=10_000, help="how many wait for a person; 0: none (%(default)s)")
    parser.add_argument("--ended", type=int, default=100_000, help="how many have ended; 0: none (%(default)s)")
    parser.add_argument("--services", type=int, default=5, help="how many worker services (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
