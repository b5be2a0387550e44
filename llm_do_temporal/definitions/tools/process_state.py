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
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_Limit = tuple[Callable[[Any], object], Callable[[], Any], Any]
"""Function that sets a limit, function that reads it, and the limit as it was."""


class ProcessState:
    """Settings as they were before any of the code that now runs began.

    A limit that was lowered is put back when the call that may have lowered it ends, everything else when no other call
    runs: until then one of these may need what it has set. What is changed while a module is imported stays.
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
        try:
            yield
        finally:
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
        if read() < before:
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


def _set_open_files(most: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _logging() -> tuple[list[logging.Handler], int, int]:
    return list(logging.root.handlers), logging.root.level, logging.root.manager.disable


def _set_logging(before: tuple[list[logging.Handler], int, int]) -> None:
    handlers, level, disabled = before
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.disable(disabled)


def _set_streams(before: tuple[Any, Any]) -> None:
    sys.stdout, sys.stderr = before


_LIMITS: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0], _set_open_files),
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
    (_logging, _set_logging),
]
"""Pairs of functions: one reads a setting, the other one takes what was read."""
PROCESS_STATE = ProcessState()
