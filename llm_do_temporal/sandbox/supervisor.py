"""A small process between the worker service and a command that is not isolated, which leaves nothing of it behind.

Run as a script by a bare interpreter, so it imports the standard library alone. Linux only. It is the reaper of all
that the command starts: a process that leaves its group and its session, or whose parent ends, becomes a child of this
one. Whatever is there when the command ends, when it is told to end it (SIGTERM, politely) and when the worker service
is gone (SIGCONT, which the kernel sends it then) is killed. A command that kills this process first gets past it, and
so does one that stops it again and again.

Arguments: the service's process id, a descriptor to which the number of an error is written where the command cannot
be started, the seconds between asking and killing, and the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

END = signal.SIGTERM
"""Ask all of it to end, and kill what has not after a while."""
ORPHANED = signal.SIGCONT
"""The worker service may be gone: if so, kill all of it. It wakes this process where a command has stopped it."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_HANDLED = (signal.SIGCHLD, END, ORPHANED, signal.SIGINT, signal.SIGHUP)
_KILLING_SECONDS = 5.0
"""Seconds after which a process cannot be killed: it waits for a disk or a network that does not answer."""
_PAUSE_SECONDS = 0.005
_PARENT_FIELD = 1


def main(arguments: Sequence[str]) -> int:
    """Run the command to its end, and end all that is left of it; its exit code, as shells count."""
    service, report, grace, *argv = arguments
    # All of them: whatever number a command sends here, other than SIGKILL and SIGSTOP, ends nothing.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_PDEATHSIG, ORPHANED)
    if os.getppid() != int(service):
        return 1
    child = _started(argv, int(report), before)
    os.close(int(report))
    try:
        return _waited_for(child, float(grace), int(service))
    finally:
        _end_all()


def kill_descendants(ancestor: int) -> None:
    """Kill every process below this one, whatever its group, as far as one look finds it."""
    for one in _stopped_descendants(ancestor):
        _send(one, signal.SIGKILL)


def _end_all() -> None:
    """Kill everything below this process.

    A process whose parent ends becomes a child of this one, so there is nothing left when there are no children; what
    a look at the table of processes finds can miss one whose parent ends just then.
    """
    until = time.monotonic() + _KILLING_SECONDS
    while _reap() is not None and time.monotonic() < until:
        kill_descendants(os.getpid())
        time.sleep(_PAUSE_SECONDS)


def _stopped_descendants(ancestor: int) -> set[int]:
    """The processes below this one, stopped first, so that none of them starts another one meanwhile."""
    stopped: set[int] = set()
    while fresh := _descendants(ancestor) - stopped:
        for one in fresh:
            _send(one, signal.SIGSTOP)
        stopped |= fresh
    return stopped


def _started(argv: Sequence[str], report: int, mask: Iterable[int]) -> int:
    os.set_inheritable(report, False)
    child = os.fork()
    if child:
        return child
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for one in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(one, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(argv[0], list(argv), os.environ)  # noqa: S606 - that there is no shell is the point
    except OSError as error:
        os.write(report, str(error.errno or 0).encode())
    finally:
        os._exit(127)


def _waited_for(child: int, grace: float, service: int) -> int:
    kill_at: float | None = None
    while True:
        if kill_at is None:
            number: int | None = signal.sigwait(_HANDLED)
        else:
            info = signal.sigtimedwait(_HANDLED, max(kill_at - time.monotonic(), 0))
            number = None if info is None else info.si_signo
        if number is None or (number == ORPHANED and os.getppid() != service):
            return 128 + signal.SIGKILL
        if number == signal.SIGCHLD:
            status = (_reap() or {}).get(child)
            if status is not None:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif kill_at is None:
            kill_at = time.monotonic() + grace
            for one in _descendants(os.getpid()):
                _send(one, signal.SIGTERM)


def _reap() -> dict[int, int] | None:
    """The states of the children that have ended, or None where there are no children any more."""
    ended: dict[int, int] = {}
    try:
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return ended
            ended[child] = status
    except ChildProcessError:
        return ended or None


def _descendants(ancestor: int) -> set[int]:
    """The living processes below this one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (parent := _parent(folder)) is not None:
            children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        for one in children.get(waiting.pop(), ()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def _parent(process: Path) -> int | None:
    """Return the parent of a living process; None for one that has ended."""
    try:
        facts = (process / "stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in brackets, can hold anything.
    state, parent = facts[facts.rindex(b")") + 2 :].split()[: _PARENT_FIELD + 1]
    return None if state in b"ZX" else int(parent)


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
