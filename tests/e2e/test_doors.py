"""Every door plays the same scenario, in processes that are killed in the middle of it.

`LLM_DO_TEST_SERVER` names a server to play it at, in new namespaces; without it there is a development server for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.doors.http_door import HttpDoor
from tests.support.doors.scenario import Door, play, prepare
from tests.support.extensions import extension_doors
from tests.support.people.desk import Desk
from tests.support.servers.session import is_given, new_namespace
from tests.support.servers.temporal import temporal_server

DOORS: tuple[type[Door], ...] = (HttpDoor, *extension_doors())


@pytest.fixture
def connection() -> Iterator[dict[str, str]]:
    """Variables of the namespace in which the runs are."""
    if is_given():
        yield asyncio.run(new_namespace())
        return
    with temporal_server() as address:
        yield {"TEMPORAL_ADDRESS": address}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_run_survives_the_death_of_its_door_and_of_its_service(
    desk: Desk, connection: dict[str, str], door: type[Door]
) -> None:
    desk.environment |= connection
    prepare(desk)
    ended = play(door(desk))
    assert ended.state == "completed"
    assert "Wrote /said.txt (12 bytes)" in ended.output
