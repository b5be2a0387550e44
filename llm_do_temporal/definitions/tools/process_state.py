"""Settings of the process that other people's code may change, and that are put back when it has ended.

The code of several calls runs in one process. A low recursion limit, or a standard stream that is closed, would fail
all runs of the worker service; a current folder or an umask would change what the other calls do.
"""

from __future__ import annotations

import builtins
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
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from llm_do_temporal.definitions.tools.authors_calls import authors_call, bound_streams
from llm_do_temporal.definitions.tools.python_modules import is_lasting, is_workshops

_Limit = tuple[Callable[[Any], object], Callable[[], Any], Any]
"""Function that sets a limit, function that reads it, and the limit as it was."""
_Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""Function that reads a setting, and function that takes what was read."""


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
            with authors_call():
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
            with authors_call():
                yield
        finally:
            _watch_as_before(*watching)
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
            with suppress(Exception):
                write(before)


def _keep_open() -> None:
    """Have nobody close the standard streams: a log line that meets a closed one fails whoever writes it."""
    bound_streams()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, TypeError):
            vars(stream)["close"] = stream.flush


def _raise_again(limits: list[_Limit]) -> None:
    for write, read, before in limits:
        if read() < before:
            with suppress(OSError, ValueError):
                write(before)


def _watch_as_before(trace: Any, profile: Any) -> None:
    """Put back the trace function and the profile function of this thread, which other calls use after this one."""
    if sys.gettrace() is not trace:
        sys.settrace(trace)
    if sys.getprofile() is not profile:
        sys.setprofile(profile)


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


def _resource(which: int) -> _Setting:
    """Return the limit of a resource of the system, with a large number for no limit."""

    def read() -> int:
        most = resource.getrlimit(which)[0]
        return sys.maxsize if most == resource.RLIM_INFINITY else most

    def write(most: int) -> None:
        soft = resource.RLIM_INFINITY if most == sys.maxsize else most
        resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))

    return read, write


def _digits() -> int:
    """Return the most digits of an integer that is read or written as text; 0, for no limit, as a large number."""
    return sys.get_int_max_str_digits() or sys.maxsize


def _set_digits(most: int) -> None:
    sys.set_int_max_str_digits(0 if most == sys.maxsize else most)


def _stack_size() -> int:
    """Return the size of the stack of new threads. Asking for it sets it to the default."""
    size = threading.stack_size()
    threading.stack_size(size)
    return size


def _logging() -> tuple[list[logging.Handler], int, int]:
    return list(logging.root.handlers), logging.root.level, logging.root.manager.disable


def _set_logging(before: tuple[list[logging.Handler], int, int]) -> None:
    handlers, level, disabled = before
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.disable(disabled)


_imported: set[str] = set()
"""Names of modules whose import has ended. To look at all modules before each call takes a millisecond."""


def _modules() -> dict[str, ModuleType]:
    found = dict(sys.modules)
    for name in found.keys() - _imported:
        if getattr(getattr(found[name], "__dict__", {}).get("__spec__"), "_initializing", True) is False:
            _imported.add(name)
    return found


def _set_modules(before: dict[str, ModuleType]) -> None:
    """Put modules back that are gone or replaced, but for those of workshops, which are imported anew at times."""
    for name, module in before.items():
        if sys.modules.get(name) is not module and name in _imported and not is_workshops(name):
            sys.modules[name] = module


def _attribute(owner: Any, name: str) -> _Setting:
    return lambda: getattr(owner, name), lambda before: setattr(owner, name, before)


def _entries(name: str) -> _Setting:
    """Return the setting that is a list in `sys`: entries that are gone come back, those that are new stay.

    A module adds such entries when it is imported, which a function may do, and needs them from then on.
    """

    def read() -> tuple[list[Any], list[Any]]:
        kept = getattr(sys, name)
        return kept, [one for one in kept if is_lasting(one)]

    def write(before: tuple[list[Any], list[Any]]) -> None:
        kept, entries = before
        now = list(getattr(sys, name) or ())
        kept[:] = [*(one for one in entries if one not in now), *now]
        setattr(sys, name, kept)

    return read, write


def _timer(which: int) -> _Setting:
    return lambda: signal.getitimer(which), lambda before: signal.setitimer(which, *before)


_LIMITS: list[_Setting] = [
    (sys.getrecursionlimit, sys.setrecursionlimit),
    *(_resource(which) for name, which in vars(resource).items() if name.startswith("RLIMIT_")),
    (_digits, _set_digits),
]
_SETTINGS: list[_Setting] = [
    (lambda: dict(builtins.__dict__), builtins.__dict__.update),
    (_modules, _set_modules),
    *_LIMITS,
    (_folder, lambda folder: folder and os.chdir(folder)),
    (_umask, lambda umask: None if umask is None else os.umask(umask)),
    (lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getswitchinterval, sys.setswitchinterval),
    (gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    (_stack_size, threading.stack_size),
    *(_attribute(sys, name) for name in ("stdin", "stdout", "stderr", "excepthook", "unraisablehook")),
    _attribute(threading, "excepthook"),
    *(_entries(name) for name in ("path", "path_hooks", "meta_path")),
    *(_timer(which) for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)),
    (threading.gettrace, threading.settrace),
    (threading.getprofile, threading.setprofile),
    (_logging, _set_logging),
]
PROCESS_STATE = ProcessState()
