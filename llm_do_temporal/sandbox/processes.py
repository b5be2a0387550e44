"""Program in a process group of its own, and its output.

Owns starting, feeding and ending it: when its time is over, when it is cancelled and when it has left children
behind, the whole group is ended. One that is `supervised` is started by a supervisor, which ends what has left the
group, too, and what is still there when the worker service is gone; on systems other than Linux there is none.
Called by the shell activity. Must not know policy, isolation or Temporal.
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
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from llm_do_temporal.sandbox import supervisor
from llm_do_temporal.sandbox.supervisor import ORPHANED, kill_descendants

KEPT_BYTES = 64 * 1024 * 1024
"""Most bytes of one stream that are kept on disk; the rest is counted and dropped."""
GRACE_SECONDS = 2.0
"""Seconds of a group between SIGTERM and SIGKILL."""
_SUPERVISOR = str(Path(supervisor.__file__).resolve())
_CHUNK_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
# Looked up here: between fork and exec nothing may be loaded.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


@dataclass(frozen=True)
class ProcessSpec:
    """Program, arguments and surroundings of a process to be started."""

    argv: Sequence[str]
    """Arguments as the program itself sees them, its name first."""
    folder: str
    """The working directory, as a path of the host."""
    environment: Mapping[str, str]
    executable: str | None = None
    """File to run; None: the one that the first of `argv` names."""
    descriptors: tuple[int, ...] = ()
    """Open files that the program inherits."""
    supervised: bool = False
    """Whether a supervisor has to end processes that leave the group; isolation does that by itself."""
    joined: bool = False
    """Whether what it writes on both streams is kept together, in its order, as the first."""


@dataclass
class Stream:
    """Output to one stream: up to `KEPT_BYTES` of it in `file`, and the sum of all bytes."""

    file: BinaryIO = field(default_factory=TemporaryFile)
    total: int = 0
    kept: int = 0

    def take(self, chunk: bytes) -> None:
        """Count the chunk, and keep as much of it as there is room for."""
        self.total += len(chunk)
        room = chunk[: KEPT_BYTES - self.kept]
        self.kept += len(room)
        self.file.write(room)

    def head(self, size: int) -> bytes:
        """The first `size` bytes."""
        self.file.seek(0)
        return self.file.read(size)

    def tail(self, size: int) -> bytes:
        """The last `size` bytes of those that are kept, from the beginning of a line where there is one."""
        start = max(0, self.kept - size)
        self.file.seek(start)
        found = self.file.read()
        return found if start == 0 else found[found.find(b"\n") + 1 :]


@dataclass
class Ended:
    """A program that has ended, or was ended."""

    exit_code: int
    """128 and the number of the signal for a program that one ended, as shells count."""
    stdout: Stream
    stderr: Stream
    timed_out: bool

    def close(self) -> None:
        """Close the files of the streams."""
        self.stdout.file.close()
        self.stderr.file.close()


@dataclass(frozen=True)
class _Running:
    """A program, or its supervisor, that was started."""

    process: Process
    supervised: bool


async def run_program(program: ProcessSpec, *, timeout_seconds: float) -> Ended:
    """Run the program to its end, or for so many seconds. No process of it is left when this returns or is cancelled,
    other than those that the module names.

    Standard input is empty. Raises OSError when it cannot be started.
    """
    stdout, stderr = Stream(), Stream()
    try:
        async with _copied(stdout) as (out, out_copied), _copied(stderr) as (err, err_copied):
            running, report = await _start(program, out, err)
            try:
                timed_out = await _wait(running, timeout_seconds)
            except BaseException:
                await _finish(_end_politely(running))
                raise
            finally:
                # What it left behind would hold the pipes open, and would go on unseen.
                _signal_group(running, signal.SIGKILL)
                number = _reported(report)
            if number is not None:
                raise OSError(number, os.strerror(number))
            # Without isolation a child can leave the group, and keep the pipes: what it writes is not waited for.
            await asyncio.wait((out_copied, err_copied), timeout=GRACE_SECONDS)
    except BaseException:
        stdout.file.close()
        stderr.file.close()
        raise
    code = running.process.returncode or 0
    return Ended(code if code >= 0 else 128 - code, stdout, stderr, timed_out)


async def _start(program: ProcessSpec, stdout: BinaryIO, stderr: BinaryIO) -> tuple[_Running, int | None]:
    """Start the program with these ends of pipes, which are closed here: the last one to close them ends the copying.

    With it comes the descriptor from which a supervisor's report is read, None without one.
    """
    supervised = program.supervised and _PRCTL is not None
    report = reporting = None
    try:
        report, reporting = os.pipe() if supervised else (None, None)
        if reporting is None:
            argv, executable, descriptors = program.argv, program.executable, program.descriptors
        else:
            around = (sys.executable, "-I", "-S", _SUPERVISOR, str(os.getpid()), str(reporting), str(GRACE_SECONDS))
            argv, executable, descriptors = (*around, *program.argv), None, (*program.descriptors, reporting)
        process = await asyncio.create_subprocess_exec(
            *argv,
            executable=executable,
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stdout if program.joined else stderr,
            cwd=program.folder,
            env=dict(program.environment),
            pass_fds=descriptors,
            start_new_session=True,
            preexec_fn=_die_with_service(ORPHANED if supervised else signal.SIGKILL),
        )
    except BaseException:
        if report is not None:
            os.close(report)
        raise
    finally:
        stdout.close()
        stderr.close()
        if reporting is not None:
            os.close(reporting)
    return _Running(process, supervised=supervised), report


def _reported(report: int | None) -> int | None:
    """The number of the error with which the program could not be started, or None where it was."""
    if report is None:
        return None
    try:
        os.set_blocking(report, False)
        said = os.read(report, 16)
    except BlockingIOError:
        return None
    finally:
        os.close(report)
    return int(said) if said.isdigit() else None


async def _wait(running: _Running, timeout_seconds: float) -> bool:
    """Wait for the end of the program; return whether its time was over first."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await running.process.wait()
    except TimeoutError:
        await _end_politely(running)
        return True
    return False


@contextlib.asynccontextmanager
async def _copied(stream: Stream) -> AsyncGenerator[tuple[BinaryIO, asyncio.Task[None]]]:
    """Yield the end of a pipe to write to, and the task that copies all of it until every writer has closed it.

    The pipes of asyncio's own subprocesses will not do: with them, waiting for a process waits for its children.
    """
    reading, writing = (os.fdopen(end, mode, buffering=0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
    reader = asyncio.StreamReader()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), reading
        )
    except BaseException:
        reading.close()
        writing.close()
        raise
    copying = asyncio.create_task(_copy(reader, stream))
    try:
        yield writing, copying
    finally:
        copying.cancel()
        transport.close()
        # The start has closed it, unless something failed before.
        writing.close()


async def _finish(work: Coroutine[None, None, None]) -> None:
    """Run `work` to its end although this task is being cancelled, perhaps again and again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)


async def _end_politely(running: _Running) -> None:
    """Send SIGTERM, and after a while SIGKILL to those still there."""
    _signal_group(running, signal.SIGTERM)
    try:
        # A supervisor needs its own while for what it ends.
        async with asyncio.timeout(GRACE_SECONDS * (3 if running.supervised else 1)):
            await running.process.wait()
    except TimeoutError:
        _signal_group(running, signal.SIGKILL)
        await running.process.wait()


def _signal_group(running: _Running, number: signal.Signals) -> None:
    process = running.process
    if running.supervised and number == signal.SIGKILL and process.returncode is None:
        # A supervisor that does not answer: somebody stopped it.
        kill_descendants(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _copy(reader: asyncio.StreamReader, stream: Stream) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        stream.take(chunk)


def _die_with_service(number: signal.Signals) -> Callable[[], None] | None:
    """Let the program get this signal when the worker service is killed, as nobody would be left to end it."""
    prctl = _PRCTL
    if prctl is None:
        return None
    return lambda: prctl(_PR_SET_PDEATHSIG, number)
