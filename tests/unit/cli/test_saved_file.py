"""A file that is looked at until it has been saved."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from llm_do_temporal.cli.commands.forks import saved_file
from llm_do_temporal.cli.commands.forks.saved_file import SavedFile


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks follow each other at once."""
    monkeypatch.setattr(saved_file, "LOOK_SECONDS", 0)


async def turns() -> None:
    """Give the other task the turns for a few looks."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_only_other_bytes_are_a_new_version(tmp_path: Path) -> None:
    path = tmp_path / "a.worker"
    path.write_text("one")
    waiting = asyncio.create_task(SavedFile(path).saved())
    await turns()
    path.write_text("one")
    await turns()
    assert not waiting.done()
    path.write_text("two")
    await waiting


async def test_a_file_that_is_written_in_steps_counts_once_it_rests(tmp_path: Path) -> None:
    path, other = tmp_path / "a.worker", tmp_path / "b"
    path.write_text("one")
    saved = SavedFile(path)
    waiting = asyncio.create_task(saved.saved())
    for text in ("", "tw"):
        path.write_text(text)
        await asyncio.sleep(0)
        assert not waiting.done()
    path.unlink()
    await turns()
    assert not waiting.done()
    other.write_text("two")
    other.rename(path)
    await waiting
    again = asyncio.create_task(saved.saved())
    await turns()
    assert not again.done()
    path.write_text("three")
    await again
