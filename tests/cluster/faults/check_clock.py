"""Part of `make cluster-faults`: the clock of a worker service is an hour off while runs are at work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.cluster.faults.clerk import Clerks
from tests.cluster.faults.script import HASTY_SECONDS, TURNS
from tests.cluster.faults.stack import SERVICES, FaultStack
from tests.compose.stack import eventually

WRONG, RIGHT = SERVICES
SECONDS = {"behind": -3600, "ahead": 3600}
SOURCE = Path(__file__).with_name("wrong_clock.c")


class Clock:
    """The clock of the service that is wrong."""

    def __init__(self, name: str, stack: FaultStack) -> None:
        """`name` says how it is wrong."""
        self.name = name
        self.usual = stack.cluster.processes[WRONG].variables
        self._stack = stack

    def put_right(self) -> None:
        """Start the service again, with the machine's clock."""
        self._stack.exchange(WRONG, self.usual)


@pytest.fixture(params=SECONDS)
def clock(stack: FaultStack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Clock]:
    """A wrong clock that one of the services has meanwhile."""
    if sys.platform != "linux" or (compiler := shutil.which("cc")) is None:
        pytest.skip(
            "NOT RUN: a wrong clock needs Linux and a C compiler (`cc`); on Debian: apt-get install gcc libc6-dev"
        )
    library = tmp_path / "wrong_clock.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    clock = Clock(request.param, stack)
    wrong = {"LD_PRELOAD": str(library), "WRONG_CLOCK_SECONDS": str(SECONDS[request.param])}
    stack.exchange(WRONG, {**clock.usual, **wrong})
    yield clock
    clock.put_right()


def test_nothing_happens_twice_where_a_clock_is_wrong(stack: FaultStack, clock: Clock) -> None:
    """Not even where the service hears late what it was to do."""
    Clerks.begin(stack, f"{clock.name}-cut", 6).outlive_cut(WRONG, 10)


async def test_time_limits_are_measured_by_the_server(stack: FaultStack, clock: Clock) -> None:
    stack.cluster.processes[RIGHT].stop()
    hasty = Clerks(stack, (f"{clock.name}-hasty",))
    hasty.start("hasty")
    patient = Clerks(stack, (f"{clock.name}-patient",))
    patient.start("clerk", "--max-time", "30m")
    patient.finish()
    assert not patient.limits
    short = Clerks(stack, (f"{clock.name}-short",))
    short.hold()
    short.start("clerk", "--max-time", "5s")
    short.wait(lambda: short.limits, "a person is asked about the limit")
    short.release()
    short.finish()

    # Nobody answers: each of its questions is rejected when its time is over.
    eventually(lambda: not hasty.open_runs(), "the run has ended")
    assert hasty.lines("begin") == []
    client = await Client.connect(f"127.0.0.1:{stack.ports['TEMPORAL_PORT']}")
    told = await client.get_workflow_handle(hasty.runs[0]).describe()
    assert told.close_time is not None
    assert told.close_time - told.start_time >= TURNS * timedelta(seconds=HASTY_SECONDS)


def test_long_values_wait_until_the_clock_is_right(stack: FaultStack, clock: Clock) -> None:
    """The object store refuses who signs with another time; the service goes on asking it."""
    clerks = Clerks(stack, tuple(f"{clock.name}-long{one}" for one in range(2)), is_long=True)
    log = stack.cluster.processes[WRONG].log
    known = len(log.read_text())
    clerks.start()
    eventually(lambda: "refuses access" in log.read_text()[known:], "the object store refuses the service")
    clock.put_right()
    clerks.finish()
