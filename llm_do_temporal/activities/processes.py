"""One program in a process group of its own, and what it writes.

Owns starting, feeding and ending it: when its time is over, when it is cancelled and when it has left children
behind, the whole group is ended. Called by the shell activity. Must not know policy, isolation or Temporal.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import BinaryIO

KEPT_BYTES = 64 * 1024 * 1024
"""How much of one stream is kept on disk; what comes after is counted and dropped."""
GRACE_SECONDS = 2.0
"""How long a group has between SIGTERM and SIGKILL."""
_CHUNK_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
# Looked up here: between fork and exec nothing may be loaded.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


@dataclass(frozen=True)
class Program:
    """What is to be run."""

    argv: Sequence[str]
    """As the program itself sees it, its name first."""
    folder: str
    """The working directory, as a path of the host."""
    environment: Mapping[str, str]
    executable: str | None = None
    """The file to run, where it is not the one that the first of `argv` names."""
    descriptors: tuple[int, ...] = ()
    """Open files that the program inherits."""


@dataclass
class Stream:
    """What was written to one stream: all of it up to `KEPT_BYTES` in `file`, and how much there was."""

    file: BinaryIO = field(default_factory=TemporaryFile)
    total: int = 0
    kept: int = 0

    def take(self, chunk: bytes) -> None:
        """Keep what still has room."""
        self.total += len(chunk)
        room = chunk[: KEPT_BYTES - self.kept]
        self.kept += len(room)
        self.file.write(room)

    def head(self, size: int) -> bytes:
        """The first `size` bytes."""
        self.file.seek(0)
        return self.file.read(size)


@dataclass
class Ended:
    """A program that has ended, or was ended."""

    exit_code: int
    """128 and the number of the signal for a program that one ended, as shells count."""
    stdout: Stream
    stderr: Stream
    timed_out: bool

    def close(self) -> None:
        """Let go of what was kept."""
        self.stdout.file.close()
        self.stderr.file.close()


async def run_program(program: Program, *, timeout_seconds: float) -> Ended:
    """Run it to its end, or for so long. Nothing it started in its group is left when this returns or is cancelled.

    Standard input is empty. Raises OSError when it cannot be started.
    """
    stdout, stderr = Stream(), Stream()
    try:
        async with _copied(stdout) as (out, out_copied), _copied(stderr) as (err, err_copied):
            process = await _start(program, out, err)
            try:
                timed_out = await _wait(process, timeout_seconds)
            except BaseException:
                await _finish(_end_politely(process))
                raise
            finally:
                # What it left behind would hold the pipes open, and would go on unseen.
                _signal_group(process, signal.SIGKILL)
            # Without isolation a child can leave the group, and keep the pipes: what it writes is not waited for.
            await asyncio.wait((out_copied, err_copied), timeout=GRACE_SECONDS)
    except BaseException:
        stdout.file.close()
        stderr.file.close()
        raise
    code = process.returncode or 0
    return Ended(code if code >= 0 else 128 - code, stdout, stderr, timed_out)


async def _start(program: Program, stdout: int, stderr: int) -> Process:
    """Start it with these ends of pipes, which are closed here: the last one to close them ends the copying."""
    try:
        return await asyncio.create_subprocess_exec(
            *program.argv,
            executable=program.executable,
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=program.folder,
            env=dict(program.environment),
            pass_fds=program.descriptors,
            start_new_session=True,
            preexec_fn=_die_with_service(),
        )
    finally:
        os.close(stdout)
        os.close(stderr)


async def _wait(process: Process, timeout_seconds: float) -> bool:
    """Wait for its end; True when its time was over first."""
    try:
        await asyncio.wait_for(process.wait(), timeout_seconds)
    except TimeoutError:
        await _end_politely(process)
        return True
    return False


@contextlib.asynccontextmanager
async def _copied(stream: Stream) -> AsyncGenerator[tuple[int, asyncio.Task[None]]]:
    """The end of a pipe to write to, and the task that copies what is written until every writer has closed it.

    The pipes of asyncio's own subprocesses will not do: with them, waiting for a process waits for its children.
    """
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
    )
    copying = asyncio.create_task(_copy(reader, stream))
    try:
        yield writing, copying
    finally:
        copying.cancel()
        transport.close()


async def _finish(work: Coroutine[None, None, None]) -> None:
    """Do it to its end although this task is being cancelled, perhaps again and again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)


async def _end_politely(process: Process) -> None:
    """SIGTERM, and SIGKILL for what is still there after a while."""
    _signal_group(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    except TimeoutError:
        _signal_group(process, signal.SIGKILL)
        await process.wait()


def _signal_group(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _copy(reader: asyncio.StreamReader, stream: Stream) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        stream.take(chunk)


def _die_with_service() -> Callable[[], None] | None:
    """Lets the program die with a worker service that is killed; nobody would be left to end it."""
    prctl = _PRCTL
    if prctl is None:
        return None
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
