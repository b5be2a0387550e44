"""Fixtures of all folders whose tests need a Temporal server: their conftest modules import them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.client import connections
from tests.support.patience import PATIENCE_SECONDS
from tests.support.providers.answers import Script
from tests.support.providers.provider import FakeProvider
from tests.support.runs.place import Place, served
from tests.support.servers.session import session_server


@pytest.fixture(scope="session", autouse=True)
def awaited_updates() -> Iterator[None]:
    """Waits for the answer to an update as long as a test waits for anything: a busy service is no absent one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connections, "UPDATE_SECONDS", PATIENCE_SECONDS)
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with session_server() as environment:
        yield environment


@pytest_asyncio.fixture(loop_scope="session")
async def place(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Place]:
    """An empty workshop (sandbox at its root, no model) that is served; its histories are replayed afterwards."""
    async with served(server, tmp_path) as place:
        yield place


@pytest.fixture
def point_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeProvider]]:
    """Points the OpenAI client at a provider that lives as long as the test."""
    started: list[FakeProvider] = []

    def point(script: Script, port: int = 0) -> FakeProvider:
        provider = FakeProvider(script, port=port)
        started.append(provider)
        provider.__enter__()
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        return provider

    yield point
    for provider in started:
        provider.close()


Typed = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def typed(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Types a command; returns its exit code, stdout and stderr."""
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)

    async def run(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(run_command, [*words, "--workshop", str(place.folder)])
        out, said = capsys.readouterr()
        return code, out, said

    return run
