"""Runs one measurement as a command: `python -m benchmarks.NAME [--quick]`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.stage import Stage
from benchmarks.table import Row, markdown

T = TypeVar("T")
Measure = Callable[[bool], Coroutine[Any, Any, list[Row]]]
"""Takes whether to be quick: small sizes that show that it works, and mean nothing."""

STALL_SECONDS = 20
AT_ONCE = 50
MOST_REASON_CHARS = 500
"""Largest length of a failure that is printed."""


def run_alone(measure: Measure) -> None:
    """Print the table of one measurement; exits 1 when it could not be taken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    quick = parser.parse_args().quick
    end_politely()
    try:
        print(markdown(asyncio.run(measure(quick))))
    except NotMeasured as reason:
        sys.exit(f"not measured: {reason}")


def end_politely() -> None:
    """Let SIGTERM and Ctrl-C unwind the program, so that it kills what it started."""

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough: the killing must not be interrupted
        sys.exit("stopped")

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


async def complete(
    stage: Stage, contender: Contender, kind: str, plan: Plan, stall_seconds: float = STALL_SECONDS
) -> int:
    """Run to the end. Raises NotMeasured, which names the turn, when it fails or asks nothing for a while.

    Which of the two, and the failure, are printed to stderr.

    Its process is then another: one that got stuck would take processor time from whatever is measured next.
    """
    task = asyncio.create_task(contender.run(kind, plan))
    asked, reason = 0, ""
    while not reason:
        done, _ = await asyncio.wait({task}, timeout=stall_seconds)
        if done and task.exception() is None:
            return task.result()
        before, asked = asked, len(await stage.asked(plan.job))
        if done:
            reason = f"{task.exception()}"[:MOST_REASON_CHARS]
        elif asked == before:
            reason = f"its model was asked nothing for {stall_seconds:g} s"
    task.cancel()
    await contender.drop(plan.job)
    contender.kill()
    await contender.serve()
    print(f"{contender.name}: '{plan.job}' at turn {asked}: {reason}", file=sys.stderr, flush=True)
    raise NotMeasured(f"killed at turn {asked}")


async def all_at_once(calls: list[Callable[[], Awaitable[T]]], at_once: int = AT_ONCE) -> list[T]:
    """Make all calls, so many at a time; the results in order."""
    slots = asyncio.Semaphore(at_once)

    async def call(one: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await one()

    return await asyncio.gather(*(call(one) for one in calls))
