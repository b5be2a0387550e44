"""Threads for activities that are coroutines: context managers in one, and code of authors in one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

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
