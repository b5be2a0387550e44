"""Proposal of entries as a change of `workshop.yaml`, which a person reads and commits. Nothing is written."""

from __future__ import annotations

import difflib
from pathlib import Path

from llm_do_temporal.client.rules.advice import RuleAdvice, entry_mapping
from llm_do_temporal.definitions.workshop.allow_entries import with_allow_entries
from llm_do_temporal.workshop_search import WORKSHOP_FILE


def proposed_change(folder: Path, advice: RuleAdvice) -> str:
    """Return the change that adds the advised entries to the file of a workshop, as `patch` and `git apply` take it.

    Empty where there are none. Raises UsageError where the file has no place for them.
    """
    before = read_exactly(folder / WORKSHOP_FILE)
    return unified_diff(before, with_allow_entries(before, [entry_mapping(one.entry) for one in advice.entries]))


def read_exactly(path: Path) -> str:
    """Return a file's text with the line ends and the byte order mark that it has."""
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def unified_diff(before: str, after: str, name: str = WORKSHOP_FILE) -> str:
    """Return the change as `patch` and `git apply` take it; empty where nothing changes."""
    changes = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)


def _lines(text: str) -> list[str]:
    """Return the lines with their ends, split at line feeds alone, as `patch` does."""
    lines = [f"{line}\n" for line in text.split("\n")]
    return lines[:-1] if text.endswith("\n") or not text else [*lines[:-1], lines[-1][:-1]]
