"""A workshop on disk for tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.definitions.yaml.documents import Problem
from llm_do_temporal.messages.definitions import PinnedWorker


class WorkshopFolder:
    """Writes files into a workshop and asks the registry for what is there now."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shipped = root.parent / "shipped"
        self.write("workshop.yaml", "sandbox: {root: .}\n")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    def ship(self, path: str, text: str) -> None:
        self.write(f"../shipped/{path}", text)

    def registry(self) -> Registry:
        return Registry(load_workshop(self.root), shipped=self.shipped)

    def load(self, name: str) -> PinnedWorker:
        return self.registry().load(name)

    def problems(self) -> list[Problem]:
        return check_workshop(self.root)

    def said(self) -> list[str]:
        return [f"{problem.severity} {problem}" for problem in self.problems()]
