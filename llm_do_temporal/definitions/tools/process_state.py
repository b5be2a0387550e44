"""Settings of the process that other people's code may change, and that are put back when it has ended.

The code of several calls runs in one process. A low recursion limit, or a standard stream that is closed, would fail
all runs of the worker service; a current folder or an umask would change what the other calls do.
"""

from __future__ import annotations

import gc
import locale
import logging
import os
import resource
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, KeysView
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_Limit = tuple[Callable[[Any], object], Callable[[], Any], Any]
"""Function that sets a limit, function that reads it, and the limit as it was."""


class ProcessState:
    """Settings as they were before any of the code that now runs began.

    A limit that was lowered, and a folder of modules that was taken out, is put back when the call that may have done
    it ends, everything else when no other call runs: until then one of these may need what it has set. What is changed
    while a module is imported stays.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._before: list[tuple[Callable[[Any], object], Any]] = []
        self._limits: list[_Limit] = []
        self._warned = warnings.catch_warnings()

    @contextmanager
    def usable(self) -> Generator[None]:
        """Put back limits that the code in the block lowers, and nothing else: what is set by an import stays."""
        limits = [(write, read, read()) for read, write in _LIMITS]
        _keep_open()
        try:
            yield
        finally:
            _raise_again(limits)

    @contextmanager
    def kept(self) -> Generator[None]:
        """Keep the settings of the process as they are, whatever the code in the block changes."""
        with self._lock:
            if not self._running:
                self._note()
            self._running += 1
        watching = sys.gettrace(), sys.getprofile()
        try:
            yield
        finally:
            # The thread goes on to calls of other runs.
            sys.settrace(watching[0])
            sys.setprofile(watching[1])
            with self._lock:
                self._running -= 1
                self._put_back()

    def _note(self) -> None:
        self._before = [(write, read()) for read, write in _SETTINGS]
        self._limits = [(write, read, read()) for read, write in _LIMITS]
        self._warned = warnings.catch_warnings()
        self._warned.__enter__()
        _keep_open()

    def _put_back(self) -> None:
        _raise_again(self._limits)
        if self._running:
            return
        self._warned.__exit__(None, None, None)
        for write, before in self._before:
            with suppress(OSError, ValueError, locale.Error):
                write(before)


def _keep_open() -> None:
    """Have nobody close the standard streams: a log line that meets a closed one fails whoever writes it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, TypeError):
            vars(stream)["close"] = stream.flush


def _raise_again(limits: list[_Limit]) -> None:
    for write, read, before in limits:
        if not before <= read():
            write(before)


def _umask() -> int | None:
    """Return the umask; None where it cannot be read without setting it."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return None


def _folder() -> Path | None:
    """Return the current folder; None: it is gone."""
    with suppress(OSError):
        return Path.cwd()
    return None


def _open_files() -> tuple[int, int]:
    """Return the soft and the hard limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _or_endless(soft, resource.RLIM_INFINITY), _or_endless(hard, resource.RLIM_INFINITY)


def _set_open_files(before: tuple[int, int]) -> None:
    """Set both limits; a hard one that was lowered can be raised by root alone."""
    soft, hard = (resource.RLIM_INFINITY if one == sys.maxsize else one for one in before)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    except (ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _or_endless(limit: int, endless: int) -> int:
    """Return a limit that can be compared."""
    return sys.maxsize if limit == endless else limit


def _search_path() -> KeysView[str]:
    """Return the folders in which modules are looked for, in order."""
    return dict.fromkeys(sys.path).keys()


def _set_search_path(before: KeysView[str]) -> None:
    """Put back folders that were taken out; what was added stays behind them."""
    sys.path[:] = [*before, *(one for one in sys.path if one not in before)]


def _timers() -> list[tuple[int, tuple[float, float]]]:
    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return [(kind, signal.getitimer(kind)) for kind in kinds]


def _set_timers(before: list[tuple[int, tuple[float, float]]]) -> None:
    for kind, times in before:
        signal.setitimer(kind, *times)


def _logging() -> tuple[list[logging.Handler], int, int]:
    return list(logging.root.handlers), logging.root.level, logging.root.manager.disable


def _set_logging(before: tuple[list[logging.Handler], int, int]) -> None:
    handlers, level, disabled = before
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.disable(disabled)


def _set_hooks(before: tuple[Any, Any]) -> None:
    sys.excepthook, threading.excepthook = before


def _set_streams(before: tuple[Any, Any]) -> None:
    sys.stdout, sys.stderr = before


_LIMITS: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (_open_files, _set_open_files),
    (
        lambda: _or_endless(sys.get_int_max_str_digits(), 0),
        lambda most: sys.set_int_max_str_digits(0 if most == sys.maxsize else most),
    ),
    (_search_path, _set_search_path),
]
_SETTINGS: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    *_LIMITS,
    (_folder, lambda folder: folder and os.chdir(folder)),
    (_umask, lambda umask: None if umask is None else os.umask(umask)),
    (lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getswitchinterval, sys.setswitchinterval),
    (gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    (lambda: (sys.stdout, sys.stderr), _set_streams),
    (threading.gettrace, threading.settrace),
    (threading.getprofile, threading.setprofile),
    (threading.stack_size, threading.stack_size),
    (lambda: (sys.excepthook, threading.excepthook), _set_hooks),
    (_timers, _set_timers),
    (_logging, _set_logging),
]
"""Pairs of functions: one reads a setting, the other one takes what was read."""
PROCESS_STATE = ProcessState()
