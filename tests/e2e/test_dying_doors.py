"""A door may be killed before and after everything that it tells Temporal: one run begins, and its result arrives."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, cycle
from typing import TypeVar

import pytest

from tests.support.doors.http_door import HttpDoor
from tests.support.doors.killing_proxy import KillingProxy, Moment
from tests.support.doors.scenario import Door, Ended, prepare
from tests.support.extensions import extension_doors
from tests.support.patience import eventually
from tests.support.people.desk import Desk

REQUESTS = os.environ.get("DOOR_REQUESTS", "11")
"""Numbers of the requests at which the door dies; `all` for each that it sends."""
ONCE: tuple[tuple[type[Door], Moment], ...] = tuple(
    zip((HttpDoor, *(door for door in extension_doors() if door.process_asks)), cycle(Moment), strict=False)
)
"""Each door with one moment, where single requests stand for all."""
ROWS = [(door, moment) for moment in Moment for door, _ in ONCE] if REQUESTS == "all" else ONCE
T = TypeVar("T")


@pytest.fixture
def proxy(address: str) -> Iterator[KillingProxy]:
    """The proxy between the door and the server."""
    proxy = KillingProxy(address)
    yield proxy
    proxy.close()


def requests() -> Iterator[int]:
    return iter(count(1)) if REQUESTS == "all" else map(int, REQUESTS.split())


def play(desk: Desk, door: Door, proxy: KillingProxy) -> Ended:
    """Play the scenario with a door that is opened again whenever it has died, and asked again for what got lost."""

    def lasting(ask: Callable[[], T]) -> T:
        mourned: int | None = None
        while True:
            try:
                return ask()
            except Exception:
                if proxy.killed in (None, mourned):
                    raise
                mourned = proxy.killed
                if door.process is not None:
                    door.process.wait()
                    door.open()

    run = lasting(door.start)
    question = lasting(lambda: door.asked(run))
    desk.type("approve", run, question)
    return lasting(lambda: door.result(run))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("door", "moment"), ROWS, ids=[f"{moment.name.lower()}-{door.__name__}" for door, moment in ROWS]
)
@pytest.mark.timeout(3600 if REQUESTS == "all" else 600)
def test_a_door_may_die_at_any_of_its_requests(
    desk: Desk, address: str, proxy: KillingProxy, door: type[Door], moment: Moment
) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    prepare(desk)
    desk.begin("worker")
    mortal = door(replace(desk, environment={**desk.environment, "TEMPORAL_ADDRESS": proxy.address}))
    try:
        mortal.open()
        for request in requests():
            mortal.key = f"{moment.name}-{request}"
            before = runs(desk)
            proxy.arm(request, moment)
            ended = play(desk, mortal, proxy)
            died, sent = proxy.killed is not None, proxy.disarm()
            assert len(eventually(lambda before=before: runs(desk) - before, "the run is listed")) == 1
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
    return {one["run"] for one in json.loads(desk.type("list", "--json").stdout)}
