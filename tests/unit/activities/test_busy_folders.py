"""Commands in folders whose files come and go meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.mounts import Steady, plan_mounts
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.support.workshops.run_commands import Commands

_FILES = """
import os
while True:
    for n in range(60):
        open(f"f{n}", "w").close()
    print(flush=True)
    for n in range(60):
        os.rename(f"f{n}", f"g{n}")
    for n in range(60):
        os.unlink(f"g{n}")
"""
_FOLDERS = """
import os
while True:
    for n in range(20):
        os.mkdir(f"d{n}")
        open(f"d{n}/x", "w").close()
    print(flush=True)
    for n in range(20):
        os.rename(f"d{n}", f"e{n}")
    for n in range(20):
        os.unlink(f"e{n}/x")
        os.rmdir(f"e{n}")
"""
_REPOSITORIES = """
import os
while True:
    for n in range(5):
        os.makedirs(f"r{n}/.git")
        open(f"r{n}/x.worker", "w").close()
    print(flush=True)
    for n in range(5):
        os.rename(f"r{n}", f"s{n}")
    for n in range(5):
        os.rmdir(f"s{n}/.git")
        os.unlink(f"s{n}/x.worker")
        os.rmdir(f"s{n}")
"""


def test_a_repository_that_has_just_moved_is_not_mounted_by_itself(tmp_path: Path) -> None:
    (tmp_path / "files/moved/.git").mkdir(parents=True)
    (tmp_path / "workshop.yaml").write_text("sandbox: {root: files}\n")
    files = os.open(tmp_path / "files", os.O_RDONLY | os.O_DIRECTORY)
    before = Steady(since=0.0, folders_too=True)
    try:
        with ExitStack() as opened:
            plan = plan_mounts(
                files, "files", "/", readonly=False, protection=protection_of(tmp_path), opened=opened, steady=before
            )
            assert [(bind.descriptor, bind.writable) for bind in plan.binds] == [(files, False)]
            assert plan.held_back == ["/"]
    finally:
        os.close(files)


@contextmanager
def busy(folder: Path, script: str) -> Generator[None]:
    """Let a process change the folder all the time."""
    program = [sys.executable, "-I", "-S", "-c", script]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # Read by nobody, its lines would hold it up.
        drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()
            drain.wait()


if working_bwrap() is not None:

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("script", [_FILES, _FOLDERS, _REPOSITORIES], ids=["files", "folders", "repositories"])
    @pytest.mark.parametrize("root", [".", "files"])
    async def test_a_command_runs_while_files_come_and_go(tmp_path: Path, script: str, root: str) -> None:
        folder = tmp_path / "workshop"
        where = folder / root
        (where / "own").mkdir(parents=True)
        (where / "own/a.txt").write_text("a")
        (folder / "workshop.yaml").write_text(f"sandbox: {{root: {root}}}\n")
        tree = Tree(mounts=(Mount(at="/", root=root, base=root),))
        commands = Commands(folder, LocalBlobStore(tmp_path / "blobs"), working_bwrap(), tree)
        with busy(where, script):
            for number in range(10):
                result = await commands.run("sh", "-c", f"echo {number} > own/a.txt; cat own/a.txt")
                assert result.exit_code == 0
                # Where a repository has just moved, the folder around it is read-only, and that is said.
                written = (result.stdout.text, result.stderr.text) == (f"{number}\n", "")
                assert written or (script is _REPOSITORIES and result.note is not None)
