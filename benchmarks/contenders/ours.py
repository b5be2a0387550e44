"""Ours: a workshop written for the occasion, `python -m worker_service`, and `LlmDoClient`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.contenders import tools
from benchmarks.contenders.contender import Contender, Place, terminate, until
from benchmarks.contenders.plans import Plan
from benchmarks.contenders.texts import CALLEES, FUNCTIONS, GUARDED, INSTRUCTIONS
from benchmarks.processes import NotMeasured, Service, python, spawn
from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.storage.blobs import blob_folder

QUEUE = "ours"
CONTEXT_TOKENS = 50_000
"""How much of its conversation the worker `told` is told: most models take no more than some times that."""


class Ours(Contender):
    """This project."""

    name = "ours"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.client = LlmDoClient(place.temporal, task_queue=QUEUE)
        write_workshop(place.folder, place.model_url)

    def spawn(self) -> Service:
        """Start the worker service."""
        command = python("worker_service", "--workshop", str(self.place.folder), "--address", self.place.address)
        return spawn("ours", command, self.place.folder, {**self.place.variables, "LLM_DO_TASK_QUEUE": QUEUE})

    async def start(self, kind: str, plan: Plan) -> None:
        """Start a run."""
        await self.client.start(StartRunInput(worker=kind, prompt=plan.prompt()), run=plan.job)

    async def finish(self, run: str) -> int:
        """Wait for its end."""
        try:
            return (await self.client.result(run)).usage.requests
        except LlmDoError as error:
            raise NotMeasured(f"'{run}' of ours failed: {error}") from error

    async def wait_parked(self, runs: Sequence[str]) -> None:
        """Wait until each has something pending, as `list` would show it."""
        for run in runs:
            await until(lambda run=run: self._waits(run), f"'{run}' is parked")

    async def decide(self, run: str) -> None:
        """Take the decision by update, as `approve` does."""
        await self.client.decide(run, Decision.model_validate({"decision": "approve", "by": "bench"}))

    def stored_bytes(self) -> int:
        """All that the blob store holds."""
        folder = blob_folder(self.place.folder)
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    async def _waits(self, run: str) -> bool:
        return (await self.client.status(run)).pending > 0

    async def drop(self, run: str) -> None:
        """Terminate the run; what is below it goes with it."""
        await terminate(self.place.temporal, run)


def command(*arguments: str) -> list[str]:
    """The installed command."""
    return [str(Path(sys.executable).parent / "llm-do-temporal"), *arguments]


def write_workshop(folder: Path, model_url: str) -> None:
    """The same kinds of workers as the peers have."""
    settings = {
        "name": "bench",
        "model": "scripted",
        "models": {"scripted": {"model": "openai-chat:scripted", "base_url": model_url}},
        "approvals": {"rules": {"worker.call": "pre_approved"}},
    }
    (folder / "workers").mkdir(parents=True)
    (folder / "workshop.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    shutil.copyfile(tools.__file__, folder / "tools.py")
    for kind, names in FUNCTIONS.items():
        functions = {name: {"needs_approval" if name == GUARDED else "pre_approved": True} for name in names}
        toolsets: dict[str, object] = {"custom": functions}
        if kind in CALLEES:
            toolsets["delegation"] = {CALLEES[kind]: {}}
        _write_worker(folder, kind, {"toolsets": toolsets})
        if kind == "agent":
            _write_worker(folder, "told", {"toolsets": toolsets, "max_context_tokens": CONTEXT_TOKENS})


def _write_worker(folder: Path, name: str, keys: dict[str, object]) -> None:
    text = f"---\n{yaml.safe_dump(keys)}---\n{INSTRUCTIONS}\n"
    (folder / "workers" / f"{name}.worker").write_text(text, encoding="utf-8")
