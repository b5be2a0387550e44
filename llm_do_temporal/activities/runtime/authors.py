"""Calls of other people's code: what leaves it, whatever that is, is a failure of the call and of nothing else.

Such code runs in a thread of its own with an event loop of its own, never on the loop of the worker service.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import CancelledError

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.callers import run_in_thread
from llm_do_temporal.definitions.tools.process_state import PROCESS_STATE
from llm_do_temporal.errors import EffectFailed

T = TypeVar("T")


def is_interruption(error: BaseException) -> bool:
    """Return whether the error is the cancellation of the running activity, and not one that the code has made."""
    cancelled = isinstance(error, CancelledError | asyncio.CancelledError)
    return cancelled and activity.in_activity() and activity.is_cancelled()


@contextmanager
def contained() -> Generator[None]:
    """Keep what the code in the block does to the process from other calls.

    Puts settings of the process back, and ends a copy of the worker service that the code has made by a fork and that
    leaves the block.
    """
    process = os.getpid()
    with PROCESS_STATE.kept():
        try:
            yield
        finally:
            if os.getpid() != process:
                os._exit(0)


def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that uses other people's code, in this thread. Raises Temporal's failures."""
    with user_errors(), contained():
        try:
            return run_in_thread(work)
        except (asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseExceptionGroup) as error:
            if is_interruption(error):
                raise
            raise EffectFailed(f"the toolset raised {type(error).__name__}") from error
