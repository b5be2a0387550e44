"""`check --watch`, as a person has it: again after each save, and the exit code of the last check on Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from llm_do_temporal.errors import DefinitionError
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("name: x\n")
    (tmp_path / "workers/a.worker").write_text("description: x\n---\nRead.\n")
    return tmp_path


@asynccontextmanager
async def watching(root: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Give a `check --watch` in a folder."""
    command = (sys.executable, "-m", "llm_do_temporal.cli", "check", "--watch")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process) -> list[str]:
    """Return the lines of one check."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while line := (await process.stdout.readline()).decode().rstrip():
            if line == "watching; Ctrl-C ends":
                return lines
            lines.append(line)
    raise AssertionError(lines)


async def test_each_save_is_checked_and_ctrl_c_ends_with_the_last_exit_code(workshop: Path) -> None:
    async with watching(workshop) as process:
        assert await said(process) == ["no problems"]
        (workshop / "workers/b.worker").write_text("descripton: x\n---\nRead.\n")
        problem, count = await said(process)
        assert problem.startswith("workers/b.worker:1: error: unknown key 'descripton'")
        assert count == "1 error, 0 warnings"
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == DefinitionError.exit_code


@pytest.mark.thorough
async def test_a_file_that_is_gone_is_checked_too(workshop: Path) -> None:
    other = workshop / "workers/b.worker"
    other.write_text("descripton: x\n---\nRead.\n")
    async with watching(workshop) as process:
        assert len(await said(process)) == 2
        other.unlink()
        assert await said(process) == ["no problems"]
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0
