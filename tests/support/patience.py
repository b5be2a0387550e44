"""Waiting for something that another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 150
"""How long anything may take before a test gives up; machines are slow, nothing here is slow on purpose."""
COMMAND_SECONDS = 2 * PATIENCE_SECONDS
"""How long a whole command may take, which may start a server and stay with a run to its end."""


def eventually(found: Callable[[], Any], what: str) -> Any:
    """Ask again and again until there is an answer, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"never happened: {what}")
