"""Files that another command moves away while the mounts of a command are planned."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.sandbox import mounts
from llm_do_temporal.sandbox.mounts import plan_mounts


@pytest.fixture
def vanishing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let this file or empty folder vanish after the folder around it was listed, and before it is looked at."""
    stat = os.stat

    def let_vanish(path: Path) -> None:
        def looked_at(name: Any, **options: Any) -> os.stat_result:
            if name == path.name:
                (path.rmdir if path.is_dir() else path.unlink)()
            return stat(name, **options)

        monkeypatch.setattr(mounts.os, "stat", looked_at)

    return let_vanish


def planned(folder: Path, in_workshop: str) -> dict[str, bool]:
    """What is mounted of a folder of the workshop, and whether it is writable."""
    with ExitStack() as opened:
        descriptor = os.open(folder, os.O_RDONLY)
        opened.callback(os.close, descriptor)
        plan = plan_mounts(
            descriptor,
            in_workshop,
            "/llm-do",
            readonly=False,
            protection=Protection(shared=("files",)),
            opened=opened,
        )
        return {bind.inside: bind.writable for bind in plan.binds}


@pytest.mark.control
@pytest.mark.parametrize("name", ["todo.md", "leftovers", "Ä b.txt"])
def test_a_folder_of_workers_stays_writable_where_one_of_its_files_was_moved(
    name: str, tmp_path: Path, vanishing: Callable[[Path], None]
) -> None:
    (tmp_path / "stays.txt").write_text("x")
    (tmp_path / name).write_text("x")
    vanishing(tmp_path / name)
    assert planned(tmp_path, "files/inbox") == {"/llm-do": True}


@pytest.mark.parametrize(
    ("in_workshop", "name"),
    [
        ("files", ".git"),
        ("files/inbox", ".GIT"),
        ("files", "lead.worker"),
        ("src", "tools.py"),
        ("src", "x"),
        ("workers", "a.txt"),
        (".", "workers"),
        (".", "workshop.yaml"),
    ],
)
def test_a_place_that_could_define_is_no_free_place_because_what_was_there_has_gone(
    in_workshop: str, name: str, tmp_path: Path, vanishing: Callable[[Path], None]
) -> None:
    (tmp_path / "stays.txt").write_text("x")
    (tmp_path / name).mkdir()
    vanishing(tmp_path / name)
    assert planned(tmp_path, in_workshop)["/llm-do"] is False
