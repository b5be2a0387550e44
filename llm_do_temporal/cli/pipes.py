"""Pipes of the program that starts a door: what a person hears who has no program there, and how Ctrl-C ends it.

Owns what `acp`, `lsp` and `mcp` do alike. Must not know a protocol.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import NoReturn

from llm_do_temporal.cli.text import PROGRAM, say
from llm_do_temporal.errors import UsageError

_INTERRUPTED = 130


def check_packages(what: str, extra: str, *modules: str) -> None:
    """Raise UsageError where a package of an extra is not installed."""
    if any(find_spec(module) is None for module in modules):
        raise UsageError(
            f"the packages for {what} are not installed",
            next_step=f"Install them: pip install '{PROGRAM}[{extra}]', or from a checkout "
            f"pip install './{PROGRAM}[{extra}]'",
        )


def begin_pipes(who: str) -> None:
    """Say at a terminal who starts this; from here on Ctrl-C ends the process, also while a thread waits for stdin."""
    signal.signal(signal.SIGINT, _leave)
    with suppress(AttributeError, ValueError):  # closed
        if sys.stdin.isatty():
            say(f"{who} starts this; it speaks JSON on stdin; Ctrl-C ends it")


def _leave(_number: int, _frame: object) -> NoReturn:
    # Each message was flushed as it was written; a flush here could wait for a lock that this thread holds.
    os._exit(_INTERRUPTED)
