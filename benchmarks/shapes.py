"""What a run takes, by its shape: what docs/how-to/scale.md says. Of ours alone, and no part of `make bench`."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml

from benchmarks.contenders.contender import Place, executions
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.plans import Plan
from benchmarks.contenders.texts import INSTRUCTIONS
from benchmarks.processes import NotMeasured
from benchmarks.runner import all_at_once, run_alone
from benchmarks.stage import Stage, stage
from benchmarks.table import Row

RUNS_AT_ONCE = 10
KB, MS = 1_000, 1_000
TEXT_BYTES = 2 * 1024
FILE = "/notes.md"


def _reads(files: int) -> Plan:
    return Plan(job="", turns=files, tool="read_file", arguments={"path": FILE}, keyed=False)


SHAPES: dict[str, tuple[str, Plan]] = {
    "a question: 1 turn": ("reader", _reads(0)),
    "an agent: 5 turns, 4 files read": ("reader", _reads(4)),
    "a tree: 10 turns, 7 files read, 1 delegation": ("lead", Plan(job="", tool="reader", child=_reads(7))),
}
"""Each with its worker and what the model does."""


class Reading(Ours):
    """Ours, with a worker that reads files and one that delegates to it; instructions and files of 2 KB."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        settings = place.folder / "workshop.yaml"
        with settings.open("a", encoding="utf-8") as file:
            yaml.safe_dump({"sandbox": {"root": "."}}, file)
        _write_worker(place.folder, "reader", {"filesystem": {}})
        _write_worker(place.folder, "lead", {"delegation": {"reader": {}}})
        (place.folder / FILE.lstrip("/")).write_text("n" * TEXT_BYTES, encoding="utf-8")


async def measure(quick: bool) -> list[Row]:
    """So many runs of each shape, ten at a time; means."""
    runs = 2 if quick else 60
    rows: list[Row] = []
    async with stage((Reading,)) as place:
        for number, (shape, (worker, plan)) in enumerate(SHAPES.items()):
            plans = [replace(plan, job=f"shape-{number}-{one}") for one in range(runs)]
            await place.ours.run(worker, replace(plan, job=f"shape-{number}-first"))
            rows += [Row(f"{shape}: {row.what}", row.values, row.unit) for row in await _take(place, worker, plans)]
    return rows


async def _take(place: Stage, worker: str, plans: list[Plan]) -> list[Row]:
    service, server, database, runs = place.ours.running, place.server.process, place.server.database, len(plans)
    if server is None or database is None:
        raise NotMeasured("shapes are those on a development server, with its processor time and its file")
    kept, ours, theirs = _database_bytes(database), service.cpu_seconds(), server.cpu_seconds()
    began = time.monotonic()
    await all_at_once([partial(place.ours.run, worker, plan) for plan in plans], RUNS_AT_ONCE)
    seconds = time.monotonic() - began
    ours, theirs = service.cpu_seconds() - ours, server.cpu_seconds() - theirs
    # Those of one run: they depend on nothing else. Waits until the last run is listed as closed.
    histories, size = await _histories(place, plans[-1].job)
    return [
        *(Row(what, {"ours": float(value)}) for what, value in histories.items()),
        Row("histories", {"ours": size / KB}, "KB"),
        Row("growth of the SQLite file", {"ours": (_database_bytes(database) - kept) / runs / KB}, "KB"),
        Row("processor time of the worker service", {"ours": ours / runs * MS}, "ms"),
        Row("processor time of the server", {"ours": theirs / runs * MS}, "ms"),
        Row("runs a second", {"ours": runs / seconds}),
    ]


async def _histories(place: Stage, run: str) -> tuple[dict[str, int], int]:
    """What the server tells of the histories of a run, and their bytes."""
    temporal = place.server.temporal
    found = {"workflows": 0, "history events": 0, "state transitions": 0}
    size = 0
    for workflow, execution in await executions(temporal, run):
        about = (await temporal.get_workflow_handle(workflow, run_id=execution).describe()).raw_description
        told = about.workflow_execution_info
        found["workflows"] += 1
        found["history events"] += told.history_length
        found["state transitions"] += told.state_transition_count
        size += told.history_size_bytes
    return found, size


def _database_bytes(database: Path) -> int:
    """What is in use of it, also of what stands in its write-ahead log so far."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        pages, size, free = (
            connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size", "freelist_count")
        )
    return (pages - free) * size


def _write_worker(folder: Path, name: str, toolsets: dict[str, object]) -> None:
    text = f"---\n{yaml.safe_dump({'toolsets': toolsets})}---\n{INSTRUCTIONS[:TEXT_BYTES]}\n"
    (folder / "workers" / f"{name}.worker").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_alone(measure)
