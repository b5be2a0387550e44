"""A batch of 500 decks: one run with a child for each, from the command line, with the evaluator that needs no key."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.contenders.ours import command
from benchmarks.processes import NotMeasured
from benchmarks.runner import run_alone
from benchmarks.table import Row

WORKERS = Path(__file__).parents[2] / "workers"
CONCURRENCY = 8


async def measure(quick: bool) -> list[Row]:
    """Copies of the sample decks, and how long until each has its evaluation; starting the server is in it."""
    count = 10 if quick else 500
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Path(folder) / "workers"
        shutil.copytree(WORKERS, place, ignore=shutil.ignore_patterns(".llm-do", "evaluations"))
        samples = [deck for deck in sorted((place / "files/pipeline").glob("*.pdf")) if "scan" not in deck.stem]
        for number in range(count):
            shutil.copyfile(samples[number % len(samples)], place / f"deck-{number:03}.pdf")
        seconds = await asyncio.to_thread(_seconds, place, count)
    return [
        Row(f"a batch of {count} decks, {CONCURRENCY} at a time", {"ours": seconds}, "s"),
        Row("the same for each deck", {"ours": seconds / count * 1000}, "ms"),
    ]


def _seconds(place: Path, count: int) -> float:
    options = ["--each", str(place / "deck-*.pdf"), "--concurrency", str(CONCURRENCY), "--workshop", str(place)]
    began = time.monotonic()
    done = subprocess.run(
        command("start", "pitch_evaluator", *options, "--approve-all", "-o", "json"),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise NotMeasured(f"the batch exits {done.returncode}: {done.stderr.strip()[-300:]}")
    completed = sum(item["status"] == "completed" for item in json.loads(done.stdout)["items"])
    if completed != count:
        raise NotMeasured(f"{completed} of {count} decks were evaluated")
    return seconds


if __name__ == "__main__":
    run_alone(measure)
