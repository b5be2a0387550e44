"""The product as people use it: commands in processes of their own, in a copy of the workshop that ships."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.order import long_first
from tests.support.people.desk import Desk, desk_in, ship
from tests.support.people.office import Office, office_in
from tests.support.ports import unused_port
from tests.support.servers.authorities import trust_nobody
from tests.support.servers.temporal import temporal_server

trust_nobody()
_SECONDS = 600
_HERE = f"{Path(__file__).parent}/"
_SHARED = {"house", "served"}
"""Fixtures with a server for many tests."""


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell that starts this in the background has it ignored by all below."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests of this folder more time than others, and begin with those that take long.

    Each test starts many processes, and a machine may be slow. A test with a server of its own takes longer than one
    that shares it; one with a time limit of its own takes longest.
    """
    for item in items:
        if _is_ours(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_SECONDS))
    given: dict[str, int] = getattr(config, "workerinput", {})
    items[:] = long_first(items, _length, given.get("workercount", 1))


def _is_ours(item: pytest.Item) -> bool:
    return str(item.path).startswith(_HERE)


def _length(item: pytest.Item) -> int:
    if not isinstance(item, pytest.Function) or not _is_ours(item) or _SHARED & set(item.fixturenames):
        return 0
    limit = item.get_closest_marker("timeout")
    return _SECONDS if limit is None else int(limit.args[0])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as desk:
        yield desk


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk whose workshop has a host that stays."""
    with desk_in(tmp_path_factory.mktemp("shop")) as desk:
        desk.begin("dev", "--port", str(unused_port()), "--ui-port", str(unused_port()))
        assert desk.host.kind == "dev"
        yield desk


@pytest.fixture
def shop(served: Desk) -> Desk:
    """A desk with a host that served other tests before, and their runs are still there; its files are as shipped.

    For tests that neither end a server nor look at all runs: a host costs more than what most of them do with it.
    """
    ship(served.workshop)
    return replace(served, environment=dict(served.environment))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    async with office_in(tmp_path_factory.mktemp("office")) as office:
        yield office


@pytest_asyncio.fixture(loop_scope="session")
async def office(house: Office) -> AsyncIterator[Office]:
    """The office of this module, which people leave at the end of each test."""
    yield house
    await house.leave()


@pytest.fixture
def address() -> Iterator[str]:
    """A Temporal server that nobody of ours started."""
    with temporal_server() as address:
        yield address
