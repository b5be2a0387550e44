"""Calls of other people's code that run in this process, and what such code may not do to it.

Such code cannot end the process by the functions of `os`: that fails its call alone. What it writes to the standard
streams is bounded for each call. It cannot lower limits of resources for good. None of this holds in a process that the
code has forked, or in a thread of its own that does not know the call.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from llm_do_temporal.messages.sizes import MAX_LOGGED_CHARS

_ENDING = ("_exit", "abort", "execv", "execve")
"""Functions of `os` that end the process, or put another program in its place."""
_STREAMS = (1, 2)
_log = logging.getLogger(__name__)


@dataclass
class _Call:
    """A call, and how much of its output was kept and left out, in characters or bytes."""

    process: int
    kept: int = 0
    left_out: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def shortened(self, data: Any) -> Any:
        """Return as much of a text, or of bytes, as this call may still write; a line that is cut ends there."""
        with self._lock:
            some = data[: MAX_LOGGED_CHARS - self.kept]
            self.kept += len(some)
            self.left_out += len(data) - len(some)
        cut = bool(some) and len(some) < len(data)
        return some + (b"\n" if isinstance(data, bytes) else "\n") if cut else some


_call: ContextVar[_Call | None] = ContextVar("llm_do_authors_call", default=None)


@contextmanager
def authors_call() -> Generator[None]:
    """Mark what runs in the block as one call of other people's code; a call within a call belongs to that."""
    if _running() is not None:
        yield
        return
    call = _Call(os.getpid())
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)
        if call.left_out:
            _log.warning(
                "a function wrote more than %d characters to standard streams: %d more are left out",
                MAX_LOGGED_CHARS,
                call.left_out,
            )


@contextmanager
def own_words() -> Generator[None]:
    """Let the block write without a bound: its words are not those of the call."""
    token = _call.set(None)
    try:
        yield
    finally:
        _call.reset(token)


def bound_streams() -> None:
    """Have the standard streams of the process take no more of a call than they may."""
    for stream in (sys.__stdout__, sys.__stderr__):
        for writer in (stream, getattr(stream, "buffer", None)):
            if writer is not None and "write" not in vars(writer):
                vars(writer)["write"] = _bounded(writer)


def _running() -> _Call | None:
    call = _call.get()
    return call if call is not None and call.process == os.getpid() else None


def _bounded(writer: Any) -> Callable[[Any], int]:
    write, flush = writer.write, writer.flush

    def write_some(data: Any) -> int:
        call = _running()
        if call is None or not isinstance(data, str | bytes):
            return write(data)
        some = call.shortened(data)
        if some:
            # At once: what waits in the stream would count again where it is written.
            with own_words():
                write(some)
                flush()
        return len(data)

    return write_some


def _without_end(name: str) -> Callable[..., Any]:
    ending = getattr(os, name)

    @wraps(ending)
    def end(*arguments: Any, **named: Any) -> Any:
        if _running() is not None:
            raise SystemExit(f"os.{name} would end the whole process")
        return ending(*arguments, **named)

    return end


def _with_bound(write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
    @wraps(write)
    def write_some(descriptor: int, data: Any, /) -> int:
        call = _running() if descriptor in _STREAMS else None
        if call is None:
            return write(descriptor, data)
        left = memoryview(call.shortened(bytes(data)))
        while left:
            left = left[write(descriptor, left) :]
        return len(data)

    return write_some


def _without_hard_limit(set_limits: Callable[[int, tuple[int, int]], None]) -> Callable[[int, Any], None]:
    @wraps(set_limits)
    def set_some(which: int, limits: Any, /) -> None:
        # Nobody could raise the upper one again.
        set_limits(which, limits if _running() is None else (limits[0], resource.getrlimit(which)[1]))

    return set_some


resource.setrlimit = _without_hard_limit(resource.setrlimit)
for _name in _ENDING:
    setattr(os, _name, _without_end(_name))
os.write = _with_bound(os.write)
