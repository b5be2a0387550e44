"""Signals to a process that serves until it is told to stop; before it serves, SIGTERM has it leave with 0.

Nothing is under way then. Once it serves, each has its own way to end.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import NoReturn

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TOLD = {signal.SIGTERM, signal.SIGINT}


def leave_when_told() -> None:
    """Leave on SIGTERM from here on, also for one that `hold_back` kept; a kept SIGINT is a KeyboardInterrupt here."""
    signal.signal(signal.SIGTERM, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD)


def stop_when_told(stop: Callable[[], object]) -> None:
    """Have the running event loop call `stop` on SIGINT, SIGTERM and SIGHUP."""
    for number in _STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, stop)


def hold_back() -> None:
    """Keep SIGTERM and SIGINT until `leave_when_told` of the program that takes this one's place.

    It would die of the one, and show where it was on the other.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(0)
