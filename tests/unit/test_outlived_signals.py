"""Signals to a process that serves, by their default ends of it; each process here is a real one."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, os, signal, sys
from llm_do_temporal.signals import leave_to_forks, outlive_others

signal.signal(int(sys.argv[1]), signal.SIG_DFL)  # a shell has what it starts in the background ignore some

async def main():
    told = asyncio.Queue()
    outlive_others(told.put_nowait)
    leave_to_forks()
    os.kill(os.getpid(), int(sys.argv[1]))
    print(await told.get(), flush=True)

asyncio.run(main())
"""


def ended(number: int, *, terminal: bool = False) -> tuple[str, int]:
    """What a process says, and its exit code, that sends itself a signal."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(int(number))],
            stdin=theirs if terminal else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return done.stdout.strip(), done.returncode


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGALRM", "SIGIO", "SIGXCPU", "SIGHUP", "SIGQUIT"])
def test_a_signal_of_others_is_noted(name: str) -> None:
    said, code = ended(signal.Signals[name])
    assert signal.Signals[said] == signal.Signals[name]
    assert code == 0


@pytest.mark.parametrize("name", ["SIGHUP", "SIGQUIT"])
def test_what_a_terminal_sends_ends_a_process_that_has_one(name: str) -> None:
    assert ended(signal.Signals[name], terminal=True) == ("", -signal.Signals[name])


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE"])
def test_a_fault_still_ends_a_process(name: str) -> None:
    assert ended(signal.Signals[name]) == ("", -signal.Signals[name])
