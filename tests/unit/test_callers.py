"""What Python that works for a run is given: a call that is a result or is awaited, and time that stands still."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from llm_do_temporal import callers
from llm_do_temporal.callers import CallerContext, TimeLimit, WorkerCall, WorkerRunResult
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.budget import Usage

RESULT = WorkerRunResult(output="Fine.", usage=Usage(requests=2), run="r1")


async def answer() -> WorkerRunResult:
    await asyncio.sleep(0)
    return RESULT


def test_where_no_loop_runs_a_call_is_its_result() -> None:
    made = WorkerCall(answer())
    assert (made.output, made.usage.requests, made.run) == ("Fine.", 2, "r1")
    # It can be awaited all the same, by a loop that runs later.
    assert asyncio.run(made) is RESULT


async def test_where_a_loop_runs_it_is_awaited_first() -> None:
    made = WorkerCall(answer())
    with pytest.raises(UsageError, match="the worker was not called yet"):
        _ = made.output
    assert await made is RESULT
    assert (made.output, await made) == ("Fine.", RESULT)


async def test_a_call_is_what_gather_and_tasks_take() -> None:
    assert await asyncio.gather(WorkerCall(answer()), WorkerCall(answer())) == [RESULT, RESULT]
    assert await asyncio.create_task(WorkerCall(answer())) is RESULT
    never = WorkerCall(answer())
    never.close()


async def test_a_call_is_cancelled_like_any_other() -> None:
    began = asyncio.Event()

    async def endless() -> WorkerRunResult:
        began.set()
        await asyncio.Event().wait()
        return RESULT

    task = asyncio.create_task(WorkerCall(endless()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_outside_of_a_tool_there_is_no_caller() -> None:
    assert CallerContext.current() is None


def test_time_stands_still_while_anything_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(callers, "time", SimpleNamespace(monotonic=lambda: clock.now))
    limit, endless = TimeLimit(10), TimeLimit(None)
    clock.now += 4
    with limit.stopped():
        clock.now += 1000
        with limit.stopped():
            clock.now += 1000
        clock.now += 1000
        assert not limit.is_over
    clock.now += 6
    assert not limit.is_over
    clock.now += 0.1
    assert limit.is_over
    assert not endless.is_over
