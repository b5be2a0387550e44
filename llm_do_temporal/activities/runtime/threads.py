"""Threads for activities: context managers in one, and other people's code in one of its own.

Such code never runs on the loop of the worker service. Whatever leaves it is a failure of the call and of nothing else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from temporalio import activity
from temporalio.exceptions import CancelledError

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.callers import run_in_thread
from llm_do_temporal.definitions.tools.authors_code import PROCESS_STATE
from llm_do_temporal.errors import EffectFailed

P = ParamSpec("P")
T = TypeVar("T")
Entered = TypeVar("Entered")


@asynccontextmanager
async def in_thread(context: AbstractContextManager[Entered]) -> AsyncGenerator[Entered]:
    """Enter the context in a thread and leave it in one, also where this task is cancelled meanwhile.

    Errors of the body do not reach the context.
    """
    entering = asyncio.ensure_future(asyncio.to_thread(context.__enter__))
    try:
        value = await asyncio.shield(entering)
    except asyncio.CancelledError:
        await asyncio.wait([entering])
        if entering.exception() is None:
            await _left(context)
        raise
    try:
        yield value
    finally:
        await _left(context)


async def _left(context: AbstractContextManager[Entered]) -> None:
    await to_end(context.__exit__, None, None, None)


async def to_end(function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Call a function in a thread, and wait for its end also where this task is cancelled meanwhile."""
    calling = asyncio.ensure_future(asyncio.to_thread(function, *args, **more))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        raise


async def in_own_thread(function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Call a function that may block in a thread of its own, so that it takes none of those that others wait for."""
    context = copy_context()
    with_context = partial(context.run, partial(function, *args, **more))
    executor = ThreadPoolExecutor(1, thread_name_prefix="author")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, with_context)
    finally:
        executor.shutdown(wait=False)


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
