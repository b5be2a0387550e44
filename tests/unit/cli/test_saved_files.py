"""A file that is looked at until it has been saved."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from llm_do_temporal.cli import files
from llm_do_temporal.cli.files import SavedFiles


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let looks follow each other at once."""
    monkeypatch.setattr(files, "LOOK_SECONDS", 0)


async def turns() -> None:
    """Give the other task the turns for a few looks."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_only_other_bytes_are_a_new_version(tmp_path: Path) -> None:
    path = tmp_path / "a.worker"
    path.write_text("one")
    waiting = asyncio.create_task(SavedFiles(lambda: (path,)).saved())
    await turns()
    path.write_text("one")
    await turns()
    assert not waiting.done()
    path.write_text("two")
    await waiting


async def test_a_file_that_is_written_in_steps_counts_once_it_rests(tmp_path: Path) -> None:
    path, other = tmp_path / "a.worker", tmp_path / "b"
    path.write_text("one")
    saved = SavedFiles(lambda: (path,))
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


async def test_any_of_the_files_counts_and_which_they_are_is_asked_after_each_save(tmp_path: Path) -> None:
    own, beside, later = (tmp_path / name for name in ("a.worker", "tools.py", "schemas.py"))
    files = [own, beside]
    own.write_text("one")
    saved = SavedFiles(lambda: files)
    waiting = asyncio.create_task(saved.saved())
    later.write_text("nobody looks at it yet")
    await turns()
    assert not waiting.done()
    files.append(later)
    beside.write_text("a file that was not there")
    await waiting
    again = asyncio.create_task(saved.saved())
    await turns()
    assert not again.done()
    later.write_text("now it counts")
    await again
