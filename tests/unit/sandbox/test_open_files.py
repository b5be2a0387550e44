"""Open files of the process after a program could not be started because no more may be open."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from llm_do_temporal.sandbox.processes import ProcessSpec, run_program


def open_files() -> set[str]:
    """Return the numbers of the open files of this process; one that is closed meanwhile does not count."""
    folder = Path("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd")
    return {one.name for one in folder.iterdir() if os.path.lexists(one)}


@contextmanager
def room_for(files: int) -> Generator[None]:
    """Let this process open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, open_files())) + 20, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(files):
            os.close(taken.pop())
        yield
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("room", range(12))
async def test_a_program_that_could_not_be_started_leaves_no_file_open(room: int, *, supervised: bool) -> None:
    program = ProcessSpec(argv=("true",), folder="/", environment={"PATH": os.defpath}, supervised=supervised)
    (await run_program(program, timeout_seconds=60)).close()
    gc.collect()
    before = open_files()
    with room_for(room), suppress(OSError):
        (await run_program(program, timeout_seconds=60)).close()
    # Transports close their files in the next round of the loop.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert open_files() == before
