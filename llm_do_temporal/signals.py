"""Signals to a process that serves until it is told to stop; before it serves, SIGTERM has it leave with 0.

Nothing is under way then. Once it serves, each has its own way to end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TOLD = {signal.SIGTERM, signal.SIGINT}
_OF_TERMINALS = ("SIGHUP", "SIGQUIT")
_NO_ENDS = ("SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGCHLD", "SIGURG", "SIGWINCH", "SIGINFO")
_FAULTS = ("SIGKILL", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS", "SIGEMT")
"""Names of signals, as far as a system has them: what a terminal sends, what ends no process, what has to end it."""


def leave_when_told() -> None:
    """Leave on SIGTERM from here on, also for one that `hold_back` kept; a kept SIGINT is a KeyboardInterrupt here."""
    signal.signal(signal.SIGTERM, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD)


def stop_when_told(stop: Callable[[], object]) -> None:
    """Have the running event loop call `stop` on SIGINT, SIGTERM and SIGHUP."""
    for number in _STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, stop)


def outlive_others(note: Callable[[str], object]) -> None:
    """Have the running event loop call `note` with the name of a signal that would end the process, once for each.

    Other people's code in the process may set it off, a timer of theirs for one. Signals that have a handler, or are
    ignored, stay as they are; so do those of faults, and of a terminal where there is one.
    """
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    has_terminal = any(stream is not None and stream.isatty() for stream in streams)
    left = {*_NO_ENDS, *_FAULTS, *(_OF_TERMINALS if has_terminal else ())}
    noted: set[int] = set()

    def take(number: int, name: str) -> None:
        if number not in noted:
            noted.add(number)
            note(name)

    for number in signal.valid_signals():
        name = getattr(number, "name", f"signal {int(number)}")
        if name not in left and signal.getsignal(number) is signal.SIG_DFL:
            asyncio.get_running_loop().add_signal_handler(number, take, number, name)


def leave_to_forks() -> None:
    """Have processes that are forked from here take signals as a new process does.

    They would write theirs into the event loop of this one, which would stop at the SIGTERM of a fork. One that comes
    while a process is being forked waits until it can be taken.
    """
    masks = threading.local()

    def wait() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def go_on() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def take_as_new() -> None:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        go_on()

    os.register_at_fork(before=wait, after_in_parent=go_on, after_in_child=take_as_new)


def hold_back() -> None:
    """Keep SIGTERM and SIGINT until `leave_when_told` of the program that takes this one's place.

    It would die of the one, and show where it was on the other.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(0)
