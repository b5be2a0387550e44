"""A result that is too large for a history waits, with heartbeats, for the store that it has to go to."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from llm_do_temporal.activities.heartbeats import HeartbeatInterceptor
from llm_do_temporal.big_payloads import KEPT_FROM_BYTES
from llm_do_temporal.errors import BlobsUnreachable


class Answering(ActivityInboundInterceptor):
    """The activity itself, which answers once."""

    def __init__(self, answer: str) -> None:
        self.answers = [answer]

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        return self.answers.pop()


@pytest.mark.parametrize(("size", "checks"), [(KEPT_FROM_BYTES, 3), (100, 0)])
async def test_a_large_result_waits_until_the_store_answers(size: int, checks: int) -> None:
    environment, beat, asked = ActivityEnvironment(), threading.Event(), list[bool]()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=5))
    environment.on_heartbeat = lambda *_: beat.set()

    def check() -> None:
        beat.clear()
        asked.append(beat.wait(60))
        if len(asked) < 3:
            raise BlobsUnreachable("it is down")

    async def run() -> Any:
        interceptor = HeartbeatInterceptor(check).intercept_activity(Answering("x" * size))
        return await interceptor.execute_activity(ExecuteActivityInput(fn=run, args=(), executor=None, headers={}))

    assert await environment.run(run) == "x" * size
    assert asked == [True] * checks
