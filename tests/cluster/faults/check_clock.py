"""Part of `make cluster-faults`: the clock of a worker service is an hour off while runs are at work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.faults.clerk import Clerks
from tests.cluster.faults.stack import SERVICES, FaultStack

WRONG = SERVICES[0]
SECONDS = {"behind": -3600, "ahead": 3600}
SOURCE = Path(__file__).with_name("wrong_clock.c")


@pytest.fixture(params=SECONDS)
def clock(stack: FaultStack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the fault of the clock that one of the services has meanwhile."""
    if sys.platform != "linux" or (compiler := shutil.which("cc")) is None:
        pytest.skip(
            "NOT RUN: a wrong clock needs Linux and a C compiler (`cc`); on Debian: apt-get install gcc libc6-dev"
        )
    library = tmp_path / "wrong_clock.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    usual = stack.cluster.processes[WRONG].variables
    stack.exchange(WRONG, {**usual, "LD_PRELOAD": str(library), "WRONG_CLOCK_SECONDS": str(SECONDS[request.param])})
    yield request.param
    stack.exchange(WRONG, usual)


def test_nothing_happens_twice_where_a_clock_is_wrong(stack: FaultStack, clock: str) -> None:
    """Not even where the service hears late what it was to do."""
    Clerks.begin(stack, f"{clock}-cut", 6).outlive_cut(WRONG, 10)
