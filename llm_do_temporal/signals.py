"""Signals to a process that does not serve yet: on SIGTERM it leaves with 0, for nothing is under way.

Used by what serves until it is told to stop. Once it serves, each has its own way to end.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

_TOLD = {signal.SIGTERM, signal.SIGINT}


def leave_when_told() -> None:
    """Leave on SIGTERM from here on, also for one that `hold_back` kept; a kept SIGINT is a KeyboardInterrupt here."""
    signal.signal(signal.SIGTERM, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD)


def hold_back() -> None:
    """Keep SIGTERM and SIGINT until `leave_when_told` of the program that takes this one's place.

    It would die of the one, and show where it was on the other.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(0)
