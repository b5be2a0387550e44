"""All measurements, or the ones that are named: `python -m benchmarks [--only NAME]… [--quick] [--output FILE]`.

A full run writes `benchmarks/results.md`; one that is quick or partial prints its table, unless a file is named.
With `--cluster` these are the main lines, ours and bare on the Temporal server on PostgreSQL; see tests/cluster.
Exits 1 when a measurement could not be taken, and says why below the table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import traceback
from collections.abc import Awaitable
from importlib import import_module
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.processes import NotMeasured
from benchmarks.runner import Measure, end_politely
from benchmarks.servers import CLUSTER_VARIABLE, on_cluster
from benchmarks.table import Row, markdown

MEASUREMENTS = (
    "turns",
    "kept",
    "children",
    "decisions",
    "commands",
    "crash",
    "parked",
    "longest",
    "layers",
    "batch",
    "tree",
    "page",
    "throughput",
)
RESULTS = Path(__file__).with_name("results.md")
ON_CLUSTER = ("turns", "children", "decisions", "parked", "throughput")
"""Main lines: those in which the server takes part with each step."""
LONGEST_SECONDS = 900
"""A measurement that takes longer is stuck."""


def main() -> int:
    """Run them, one after the other."""
    arguments = _parser().parse_args()
    end_politely()
    if arguments.cluster:
        os.environ[CLUSTER_VARIABLE] = "1"
    names: list[str] = arguments.only or list(ON_CLUSTER if arguments.cluster else MEASUREMENTS)
    about, began = describe(), time.monotonic()
    rows: list[Row] = []
    failed: list[str] = []
    page = ""
    whole = not arguments.quick and not arguments.only and not arguments.cluster
    output: Path | None = arguments.output or (RESULTS if whole else None)
    for number, name in enumerate(names, start=1):
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += _take(name, quick=arguments.quick)
        except Exception as error:  # one that cannot be taken must not lose the others
            if not isinstance(error, NotMeasured):
                traceback.print_exc()
            failed.append(f"- `{name}` could not be measured: {error}")
        minutes = (time.monotonic() - began) / 60
        took = f"{about}\nTook {minutes:.0f} minutes for {number} of {len(names)} measurements."
        page = _page(rows, failed, took, quick=arguments.quick)
        if output is not None:
            # At once: who stops here has what was measured so far.
            output.write_text(page, encoding="utf-8")
    print(page)
    return 1 if failed else 0


def _take(name: str, *, quick: bool) -> list[Row]:
    measure: Measure = import_module(f"benchmarks.measurements.{name}").measure
    return asyncio.run(_in_time(measure(quick)))


async def _in_time(rows: Awaitable[list[Row]]) -> list[Row]:
    try:
        return await asyncio.wait_for(rows, LONGEST_SECONDS)
    except TimeoutError as error:
        raise NotMeasured(f"it was stuck for {LONGEST_SECONDS // 60} minutes") from error


def _page(rows: list[Row], failed: list[str], about: str, *, quick: bool) -> str:
    note = "**Quick: small sizes, which show that it works and mean nothing.**\n" if quick else ""
    where = "On the Temporal server on PostgreSQL, its roles in processes of their own." if on_cluster() else ""
    parts = ["# Benchmarks", note, where, about, markdown(rows), "\n".join(failed), "[What each line means](README.md)"]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ours, a bare durable agent, and DBOS.")
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--cluster", action="store_true", help="on the Temporal server on PostgreSQL, without DBOS")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--output", type=Path, help="where to write the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
