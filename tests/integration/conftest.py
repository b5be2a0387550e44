"""The real development server, a worker service in this process, and a replay of every history they made."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.service.build import build_replayer
from tests.support.dialects.server import Providers
from tests.support.runs.fixtures import awaited_updates, place, point_at, server, typed
from tests.support.runs.place import Place, served
from tests.support.runs.vault import NEW_KEY, OLD_KEY, Vault
from tests.support.servers.authorities import trust_nobody
from tests.support.servers.session import HASTY, is_given, session_server

__all__ = ["awaited_updates", "place", "point_at", "server", "typed"]

trust_nobody()


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """A server that speaks the protocols of all providers, for all tests of a file."""
    with Providers() as providers:
        yield providers


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def hasty_server() -> AsyncIterator[WorkflowEnvironment]:
    """A server that suggests to continue as new after some turns."""
    async with session_server(HASTY) as environment:
        yield environment


@pytest_asyncio.fixture(loop_scope="session")
async def hasty(hasty_server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Place]:
    """A place whose workflows are continued as new after some turns or items."""
    async with served(hasty_server, tmp_path) as place:
        yield place


@pytest_asyncio.fixture(loop_scope="session")
async def vault(server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Vault]:
    """A workshop that nobody serves yet; its histories are replayed afterwards."""
    folder = tmp_path / "workshop"
    folder.mkdir()
    place = Place(folder, LlmDoClient(server.client), f"test-{uuid4().hex}")
    place.workshop()
    vault = Vault(server, place, monkeypatch)
    yield vault
    vault.use(NEW_KEY, OLD_KEY)
    for history in await vault.raw():
        await build_replayer(folder).replay_workflow(history)


def pytest_collection_finish() -> None:
    """Keep what is loaded out of collections of garbage, as the worker service does."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is about the development server itself where the server is another one."""
    for item in items:
        mark = item.get_closest_marker("embedded")
        if mark is not None and is_given():
            item.add_marker(pytest.mark.skip(reason=f"is about the development server: {mark.args[0]}"))
