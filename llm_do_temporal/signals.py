"""SIGTERM to a process that does not serve yet: it leaves with 0, for nothing is under way.

Used by what serves until it is told to stop. Once it serves, each has its own way to end.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

_TOLD = {signal.SIGTERM}


def leave_when_told() -> None:
    """Leave on SIGTERM from here on, also for one that `hold_back` kept."""
    signal.signal(signal.SIGTERM, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD)


def hold_back() -> None:
    """Keep SIGTERM until `leave_when_told` of the program that takes this one's place, which would die of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(0)
