"""Settings of the process that a function changes: they hold for its own time alone."""

from __future__ import annotations

import builtins
import gc
import locale
import logging
import operator
import os
import resource
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from llm_do_temporal.definitions.tools.authors_code import ProcessState, importable


def umask() -> int:
    """The umask, which can be read only by setting it."""
    before = os.umask(0)
    os.umask(before)
    return before


def open_files() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _watch(frame: FrameType, event: str, arg: object) -> None:
    """Watch what threads do."""


def stack_size() -> int:
    """The size of the stack of new threads; asking for it sets it to the default."""
    size = threading.stack_size()
    threading.stack_size(size)
    return size


def found(name: str) -> tuple[list[Any], list[Any]]:
    """A list in `sys`: the list itself, and what is in it."""
    there = getattr(sys, name)
    return there, list(there)


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], object]]] = {
    "recursion-low": (sys.getrecursionlimit, lambda: sys.setrecursionlimit(300)),
    "recursion-high": (sys.getrecursionlimit, lambda: sys.setrecursionlimit(30_000)),
    "open-files": (open_files, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, open_files()[1]))),
    "folder": (Path.cwd, lambda: os.chdir("/")),
    "umask": (umask, lambda: os.umask(0o777)),
    "locale": (lambda: locale.setlocale(locale.LC_ALL), lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8")),
    "sockets": (socket.getdefaulttimeout, lambda: socket.setdefaulttimeout(0.001)),
    "switches": (sys.getswitchinterval, lambda: sys.setswitchinterval(100)),
    "garbage": (gc.isenabled, gc.disable),
    "streams": (lambda: (sys.stdout, sys.stderr), lambda: setattr(sys, "stdout", StringIO())),
    "no-streams": (lambda: (sys.stdout, sys.stderr), lambda: setattr(sys, "stderr", None)),
    "warnings": (lambda: list(warnings.filters), lambda: warnings.simplefilter("error")),
    "handlers": (lambda: list(logging.root.handlers), lambda: logging.basicConfig(force=True, level=1)),
    "level": (lambda: logging.root.level, lambda: logging.basicConfig(force=True, level=1)),
    "logging": (lambda: logging.root.manager.disable, lambda: logging.disable(logging.CRITICAL)),
    "trace": (threading.gettrace, lambda: threading.settrace(_watch)),
    "profile": (threading.getprofile, lambda: threading.setprofile(_watch)),
    "own-profile": (sys.getprofile, lambda: sys.setprofile(_watch)),
    "own-trace": (sys.gettrace, lambda: sys.settrace(_watch)),
    "digits": (sys.get_int_max_str_digits, lambda: sys.set_int_max_str_digits(640)),
    "endless-digits": (sys.get_int_max_str_digits, lambda: sys.set_int_max_str_digits(0)),
    "hard-open-files": (open_files, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))),
    "memory": (lambda: resource.getrlimit(resource.RLIMIT_AS), lambda: resource.setrlimit(resource.RLIMIT_AS, (1, 1))),
    "stacks": (stack_size, lambda: threading.stack_size(32_768)),
    "failures": (lambda: sys.excepthook, lambda: setattr(sys, "excepthook", None)),
    "failures-in-threads": (lambda: threading.excepthook, lambda: setattr(threading, "excepthook", None)),
    "failures-nobody-sees": (lambda: sys.unraisablehook, lambda: setattr(sys, "unraisablehook", None)),
    "input": (lambda: sys.stdin, lambda: setattr(sys, "stdin", None)),
    "path": (lambda: found("path"), lambda: sys.path.clear()),
    "another-path": (lambda: found("path"), lambda: setattr(sys, "path", [])),
    "no-path": (lambda: found("path"), lambda: setattr(sys, "path", None)),
    "finders": (lambda: found("meta_path"), lambda: sys.meta_path.clear()),
    "hooks": (lambda: found("path_hooks"), lambda: sys.path_hooks.clear()),
    "modules": (lambda: sys.modules["json"], lambda: sys.modules.pop("json")),
    "other-modules": (lambda: sys.modules["json"], lambda: operator.setitem(sys.modules, "json", sys)),
    "words": (lambda: builtins.len, lambda: setattr(builtins, "len", None)),
    "no-words": (lambda: builtins.sorted, lambda: delattr(builtins, "sorted")),
    "timer": (lambda: signal.getitimer(signal.ITIMER_VIRTUAL), lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 600)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_setting_is_as_before_when_the_code_has_ended(what: str) -> None:
    read, change = CHANGES[what]
    before, state = read(), ProcessState()
    with state.kept():
        change()
    assert read() == before


def test_what_an_import_in_a_function_adds_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module needs its folder and its finder after the call that has imported it first."""
    finder: Any = object()
    for name in ("path", "meta_path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    with ProcessState().kept():
        sys.path.insert(0, str(tmp_path))
        sys.meta_path.append(finder)
    assert (sys.path[0], sys.meta_path[-1]) == (str(tmp_path), finder)


def test_the_finder_of_a_call_does_not_outlast_it(tmp_path: Path) -> None:
    with importable(tmp_path):
        pass
    before, state = list(sys.meta_path), ProcessState()
    with ExitStack() as other:
        other.enter_context(importable(tmp_path))
        with state.kept():
            other.close()
    assert sys.meta_path == before
    with importable(tmp_path), state.kept():
        sys.meta_path.clear()
    assert sys.meta_path == before


def test_a_folder_that_is_gone_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    state = ProcessState()
    with state.kept():
        gone.rmdir()
        os.chdir(tmp_path)
    assert Path.cwd() == tmp_path


def test_what_another_call_has_set_is_left_to_it_and_a_lowered_limit_is_not(tmp_path: Path) -> None:
    state, folder, limit = ProcessState(), Path.cwd(), sys.getrecursionlimit()
    with state.kept():
        os.chdir(tmp_path)
        sys.setrecursionlimit(300)
        with state.kept():
            pass
        assert Path.cwd() == tmp_path
        assert sys.getrecursionlimit() == limit
        sys.setrecursionlimit(limit + 1)
        with state.kept():
            pass
        assert sys.getrecursionlimit() == limit + 1
    assert (Path.cwd(), sys.getrecursionlimit()) == (folder, limit)


def test_a_standard_stream_cannot_be_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as log:
        monkeypatch.setattr(sys, "stdout", log)
        with ProcessState().kept():
            with sys.stdout as stream:
                print("inside", file=stream)
            print("after")
        print("afterwards")
    assert (tmp_path / "log.txt").read_text().split() == ["inside", "after", "afterwards"]
