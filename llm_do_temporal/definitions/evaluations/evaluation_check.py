"""Check of a workshop's evaluation files: their own mistakes, and workers that they name and that are not there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path

from llm_do_temporal.definitions.evaluations.evaluation_file import evaluation_files, read_evaluation
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.definitions.yaml.lines import KeyPath
from llm_do_temporal.definitions.yaml.problems import Problem


def evaluation_problems(root: Path, workers: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of all evaluation files of a workshop, whose workers have these names."""
    for path in evaluation_files(root):
        parsed = read_evaluation(path, root)
        yield from parsed.problems
        spec = parsed.spec
        if spec is None:
            continue
        named: list[tuple[KeyPath, str]] = [(("worker",), spec.worker)]
        if spec.judge is not None:
            named.append((("judge",), spec.judge.worker))
        for key, name in named:
            if name.removeprefix(PACKAGE_PREFIX) not in workers:
                close = get_close_matches(name, workers, n=1)
                step = f"Did you mean '{close[0]}'?" if close else f"Make workers/{name}.worker."
                yield Problem(
                    parsed.label, parsed.document.line_of(key), f"there is no worker '{name}'", next_step=step
                )
