"""A door may be killed before and after everything that it tells Temporal: one run begins, and its result arrives."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import TypeVar

import pytest

from tests.support.doors.acp_door import AcpDoor
from tests.support.doors.http_door import HttpDoor
from tests.support.doors.mcp_doors import McpOverHttp, McpOverPipes
from tests.support.doors.mortal_wire import Moment, MortalWire
from tests.support.doors.scenario import Door, Ended, prepare
from tests.support.doors.slack_door import SlackDoor
from tests.support.people.desk import Desk

DOORS: tuple[type[Door], ...] = (HttpDoor, McpOverHttp, McpOverPipes, AcpDoor, SlackDoor)
REQUESTS = os.environ.get("DOOR_REQUESTS", "11")
"""Numbers of the requests at which the door dies; `all` for each that it sends."""
LEFT_OUT = () if REQUESTS == "all" else ((McpOverHttp, Moment.BEFORE), (SlackDoor, Moment.BEFORE))
"""Rows of the table that one request is not tried in: the server is the one over pipes, and Slack's is the longest."""
ROWS = [(door, moment) for moment in Moment for door in DOORS if (door, moment) not in LEFT_OUT]
T = TypeVar("T")


@pytest.fixture
def wire(address: str) -> Iterator[MortalWire]:
    """The wire between the door and the server."""
    wire = MortalWire(address)
    yield wire
    wire.close()


def requests() -> Iterator[int]:
    return iter(count(1)) if REQUESTS == "all" else map(int, REQUESTS.split())


def play(desk: Desk, door: Door, wire: MortalWire) -> Ended:
    """Play the scenario with a door that is opened again whenever it has died, and asked again for what got lost."""

    def lasting(ask: Callable[[], T]) -> T:
        mourned: int | None = None
        while True:
            try:
                return ask()
            except Exception:
                if wire.killed in (None, mourned):
                    raise
                mourned = wire.killed
                if door.process is not None:
                    door.process.wait()
                    door.open()

    run = lasting(door.start)
    question = lasting(lambda: door.asked(run))
    desk.type("approve", run, question)
    return lasting(lambda: door.result(run))


@pytest.mark.parametrize(
    ("door", "moment"), ROWS, ids=[f"{moment.name.lower()}-{door.__name__}" for door, moment in ROWS]
)
@pytest.mark.timeout(3600 if REQUESTS == "all" else 180)
def test_a_door_may_die_at_any_of_its_requests(
    desk: Desk, address: str, wire: MortalWire, door: type[Door], moment: Moment
) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    prepare(desk)
    desk.begin("worker")
    mortal = door(replace(desk, environment={**desk.environment, "TEMPORAL_ADDRESS": wire.address}))
    try:
        mortal.open()
        for request in requests():
            mortal.key = f"{moment.name}-{request}"
            before = runs(desk)
            wire.arm(request, moment)
            ended = play(desk, mortal, wire)
            died, sent = wire.killed is not None, wire.disarm()
            assert len(runs(desk) - before) == 1
            assert ended.state == "completed"
            assert "Wrote /said.txt (12 bytes)" in ended.output
            assert ended.requests in (2, None)
            print(f"request {request}: {moment}; {sent} in all")
            if not died:
                assert REQUESTS == "all", f"it sent {sent} requests"
                break
    finally:
        mortal.close()


def runs(desk: Desk) -> set[str]:
    """The runs that there are."""
    return {one["run"] for one in json.loads(desk.type("list", "--json").stdout)}
