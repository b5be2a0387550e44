"""Layers beside the same without one: writes with one review, reads through a large layer, a large commit."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import yaml

from benchmarks.contenders.contender import POLL_SECONDS, Place, history_size
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.plans import Plan
from benchmarks.contenders.texts import INSTRUCTIONS
from benchmarks.runner import run_alone
from benchmarks.stage import Stage, stage
from benchmarks.table import Row, at_most
from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.extensions.review.commit import LayerCommit
from llm_do_temporal.messages.activities import ReadFileInput
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import Mount
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer, Layer, LayerAuthor
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from llm_do_temporal.storage.blobs import LocalBlobStore

WRITES = Plan(job="", turns=3, width=10, tool="write_file", keyed=False)
"""30 files of 2 KB, ten in a turn."""
CONTENT = "changed\n" * 256
AUTHOR = LayerAuthor(invocation="main/bench-1", turn=1)
ASKED, REVIEWED = "asked", "reviewed"
KB, MICROSECONDS = 1_000, 1_000_000
WITHOUT = "bare"
"""Column of the same without a layer."""


class Writing(Ours):
    """Ours, with a worker that is asked about each write and one whose changes are reviewed together."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with (place.folder / "workshop.yaml").open("a", encoding="utf-8") as file:
            yaml.safe_dump({"sandbox": {"root": "files"}}, file)
        (place.folder / "files").mkdir()
        for name, keys in ((ASKED, {}), (REVIEWED, {"review": "changes"})):
            front = yaml.safe_dump({"toolsets": {"filesystem": {}}, **keys})
            (place.folder / "workers" / f"{name}.worker").write_text(f"---\n{front}---\n{INSTRUCTIONS}\n", "utf-8")


async def measure(quick: bool) -> list[Row]:
    """Runs with and without a review in turn, then reads and commits; medians."""
    rounds, files = (1, 50) if quick else (5, 1_000)
    return [*await _writes(rounds), *await asyncio.to_thread(_files, files, rounds)]


async def _writes(rounds: int) -> list[Row]:
    taken: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    async with stage((Writing,)) as place:
        for number in range(-1, rounds):
            for worker, column in ((ASKED, WITHOUT), (REVIEWED, "ours")):
                figures = await _run(place, worker, f"{worker}-{number}")
                if number >= 0:  # the first of each loads what the others find loaded
                    for what, value in figures.items():
                        taken[what][column].append(value)
    title = f"{WRITES.turns * WRITES.width} writes, one review (bare: each asked)"
    return [
        at_most(Row(f"{title}: {what}", {name: median(values) for name, values in found.items()}, unit), bare=1)
        for (what, found), unit in zip(taken.items(), ("s", "", "KB"), strict=True)
    ]


async def _run(place: Stage, worker: str, job: str) -> dict[str, float]:
    """Time from the start to the end, where each question is approved as soon as it is there."""
    ours = place.ours
    kept = ours.stored_bytes()
    plan = replace(WRITES, job=job, arguments={"path": "/{key}.md", "content": CONTENT + job})
    began = time.monotonic()
    await ours.start(worker, plan)
    end = asyncio.create_task(ours.finish(job))
    answered: set[str] = set()
    while not end.done():
        for question in await ours.client.approvals(job):
            if question.id not in answered:
                await ours.client.decide(job, Decision(id=question.id, decision=DecisionKind.APPROVE, by="bench"))
                answered.add(question.id)
        await asyncio.wait({end}, timeout=POLL_SECONDS)
    await end
    seconds = time.monotonic() - began
    size, events = await history_size(place.server.temporal, job)
    kept = ours.stored_bytes() - kept
    return {"time": seconds, "events of all histories": float(events), "histories and blobs": (size + kept) / KB}


def _files(count: int, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-layers-") as name:
        bench = _Bench(Path(name), count)
        reads = f"read_file, median of {count}"
        through, beside = bench.read(rounds, changed=True), bench.read(rounds, changed=False)
        return [
            at_most(Row(f"{reads}, of a file in a layer of {count} files", through, "µs"), bare=1.2),
            at_most(Row(f"{reads}, of a file that such a layer does not have", beside, "µs"), bare=1.2),
            Row(f"commit of {count} files (bare: write, fsync, rename)", bench.commit(rounds), "s"),
        ]


class _Bench:
    """Workshop with twice so many files, of which a layer has changed half."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._names = folder, [f"d{number % 40}/f{number}.md" for number in range(count)]
        self._blobs = LocalBlobStore(folder / "blobs")
        self._contents = LayerContents(self._blobs)
        self._workshop = folder / "shop"
        _fill(self._workshop, self._paths)
        self._layer = self._changed(self._workshop)
        self._activities = FileActivities(self._workshop, self._blobs)

    @property
    def _paths(self) -> list[str]:
        return [f"{top}/{name}" for top in ("changed", "same") for name in self._names]

    def read(self, rounds: int, *, changed: bool) -> dict[str, float]:
        """Read all of one half as the activity does, with the layer and without, in turn."""
        carried = CarriedLayer(manifest=self._contents.manifest_of(self._layer))
        layers = {WITHOUT: None, "ours": LayerWork(carried=carried, author=AUTHOR)}
        taken: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(-1, rounds):
            for name in self._names:
                # File by file in turn: whatever else the machine does meanwhile slows both.
                for column, layer in layers.items():
                    seconds = self._seconds(f"{'changed' if changed else 'same'}/{name}", layer)
                    if number >= 0:
                        taken[column].append(seconds)
        return {column: median(times) * MICROSECONDS for column, times in taken.items()}

    def _seconds(self, path: str, layer: LayerWork | None) -> float:
        mount = Mount(at="/", root=".")
        asked = ReadFileInput(mount=mount, relative=path, path=f"/{path}", max_chars=100_000, offset=0, layer=layer)
        began = time.perf_counter()
        self._activities.read_file(asked)
        return time.perf_counter() - began

    def commit(self, rounds: int) -> dict[str, float]:
        """Commit the layer to a fresh folder in each round; write the same files plainly in between."""
        taken: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(rounds):
            plain, folder = self._folder / f"plain-{number}", self._folder / f"commit-{number}"
            _fill(plain, self._paths)
            _fill(folder, self._paths)
            layer = self._changed(folder)
            commit = LayerCommit(folder, self._contents, Protection(shared=("changed",)))
            taken[WITHOUT].append(_timed(partial(self._write_plainly, plain)))
            taken["ours"].append(_timed(partial(commit.commit, layer, key="bench", reviewed=layer.digest())))
        return {column: median(times) for column, times in taken.items()}

    def _changed(self, workshop: Path) -> Layer:
        with base_files(workshop, contents=self._contents) as base:
            draft = LayerDraft(NO_LAYER, base, AUTHOR)
            for name in self._names:
                path = f"changed/{name}"
                draft.write(path, self._contents.keep(f"{CONTENT}{name}".encode(), path))
            return draft.layer()

    def _write_plainly(self, folder: Path) -> None:
        for name in self._names:
            path = folder / "changed" / name
            staged = path.with_suffix(".new")
            with staged.open("wb") as file:
                file.write(f"{CONTENT}{name}".encode())
                file.flush()
                os.fsync(file.fileno())
            staged.rename(path)


def _fill(folder: Path, paths: Iterable[str]) -> None:
    for path in paths:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{path}\n" * 100, "utf-8")


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    run_alone(measure)
