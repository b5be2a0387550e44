"""Context managers that are entered and left in a thread, by activities that are coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypeVar

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
    leaving = asyncio.ensure_future(asyncio.to_thread(context.__exit__, None, None, None))
    try:
        await asyncio.shield(leaving)
    except asyncio.CancelledError:
        await asyncio.wait([leaving])
        raise
