"""`start path/to/x.worker`: one file, no workshop, no files, and nothing left beside it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.server import running_host
from tests.support.patience import eventually
from tests.support.people.desk import Desk
from tests.support.people.forked_program import run_forked


@dataclass
class Alone:
    """A folder with one worker file, and somebody who types there."""

    folder: Path
    environment: dict[str, str]

    @property
    def cache(self) -> Path:
        """Where servers of single files keep their state."""
        return Path(self.environment["XDG_CACHE_HOME"]) / "llm-do-temporal" / "files"

    def type(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        done = run_forked(arguments, folder=self.folder, environment=self.environment)
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture
def alone(desk: Desk, tmp_path: Path) -> Iterator[Alone]:
    """A folder outside any workshop."""
    folder = tmp_path / "somewhere"
    folder.mkdir()
    (folder / "echo.worker").write_text("---\nmodel: offline:echo\n---\nSay it again.\n")
    alone = Alone(folder, desk.environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    yield alone
    for served in alone.cache.glob("*"):
        host = running_host(served)
        if host is not None:
            with suppress(ProcessLookupError):  # it may have left just now, as nobody needed it
                os.kill(host.pid, signal.SIGTERM)
            eventually(lambda served=served: running_host(served) is None, "the host has left")


@pytest.mark.thorough
def test_a_file_runs_and_nothing_is_written_beside_it(alone: Alone) -> None:
    assert alone.type("start", "echo.worker", "hello").stdout == "hello\n"
    assert [path.name for path in alone.folder.iterdir()] == ["echo.worker"]
    (served,) = alone.cache.iterdir()
    assert (served / ".llm-do" / "temporal.db").exists()


@pytest.mark.thorough
def test_other_commands_find_its_runs_by_the_file(alone: Alone) -> None:
    alone.type("start", "echo.worker", "hello", "--id", "job", "--detach")
    assert alone.type("result", "job", "--workshop", "echo.worker").stdout == "hello\n"


def test_a_worker_that_asks_for_files_is_refused_and_told_the_way(alone: Alone) -> None:
    (alone.folder / "clerk.worker").write_text("---\ntoolsets:\n  filesystem: {}\n---\nKeep notes.\n")
    done = alone.type("start", "clerk.worker", "go", "--model", "offline:echo", code=8)
    assert "clerk.worker:3: 'toolsets.filesystem' asks for files" in done.stderr
    assert "workshop.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("missing.worker", "go"), 2, "there is no file 'missing.worker'"),
        (("echo.worker", "go", "--address", "127.0.0.1:1"), 2, "on a server of its own"),
        (("echo.worker", "go", "--workshop", "."), 2, "'echo'"),
    ],
)
def test_what_does_not_go_together_is_said(alone: Alone, arguments: tuple[str, ...], code: int, part: str) -> None:
    done = alone.type("start", *arguments, code=code)
    assert part in done.stderr
    assert not alone.cache.exists()


@pytest.mark.thorough
def test_a_file_of_a_workshop_runs_without_its_files_and_says_so(desk: Desk, alone: Alone) -> None:
    alone.folder = desk.workshop
    done = alone.type("start", "greeter.worker", "hello", "--model", "offline:echo")
    assert "without the files of the workshop" in done.stderr
    assert not (desk.workshop / ".llm-do").exists()
