"""Files that a start looks at, each once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.client.start import StartRequest, load_local_worker
from llm_do_temporal.errors import UsageError

opened: Counter[str] = Counter()
"""Times that this process has opened each file."""


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(args[0], str | Path):
        opened[str(args[0])] += 1


sys.addaudithook(_note)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workshop with a worker that takes files."""
    monkeypatch.delenv("LLM_DO_MODEL", raising=False)
    (tmp_path / "workshop.yaml").write_text("name: test\nsandbox: {root: .}\n", encoding="utf-8")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers/main.worker").write_text("description: x\n---\nDo it.\n", encoding="utf-8")
    return tmp_path


def started(folder: Path, *files: Path) -> tuple[Counter[str], list[str]]:
    """Times that each file was opened for a start, and its warnings."""
    told, before = list[str](), opened.copy()
    request = StartRequest(worker="main", files=files, model="offline:echo")
    request.prepare(folder, embedded=True, needs_keys=True, warn=told.append)
    return opened - before, told


def test_a_start_reads_the_workshop_once(workshop: Path) -> None:
    times, _ = started(workshop)
    assert times[str(workshop / "workshop.yaml")] == 1


def test_a_start_reads_each_attached_file_once_and_still_doubts_it(workshop: Path) -> None:
    deck = workshop / "deck.pdf"
    deck.write_bytes(b"%PDF-1.7 cut")
    times, told = started(workshop, deck)
    assert times[str(deck)] == 1
    assert told == ["models do not get these files as they are: 'deck.pdf': it was cut: its end is missing"]


def test_files_of_an_item_count_with_those_of_the_start(workshop: Path) -> None:
    policy = "attachment_policy: {max_total_bytes: 10}"
    (workshop / "workers/main.worker").write_text(f"description: x\n{policy}\n---\nDo it.\n", encoding="utf-8")
    file = workshop / "six.txt"
    file.write_bytes(b"6 byte")
    worker = load_local_worker(workshop, "main")
    of_start = worker.attach([file])
    with pytest.raises(UsageError, match="2 files of together 12 bytes attached"):
        worker.attach([file], beside=of_start)
