"""Hostile inputs: each test item is one, and the summary says how many were tried and how many were held.

A test that shows what must still work beside a defence is marked `control` and does not count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest

from tests.support.runs.fixtures import awaited_updates, place, point_at, server
from tests.support.runs.place import Place
from tests.support.servers.authorities import trust_nobody
from tests.support.workshops.folders import Folder, forgotten_modules, make_folder

__all__ = ["awaited_updates", "place", "point_at", "server"]

trust_nobody()

FEWEST_INPUTS = 500
"""A run of this whole folder that tries fewer fails: the tables of attacks only ever grow."""
_HERE = Path(__file__).parent
_CONTROL = "control"


@pytest.fixture
def forgotten(tmp_path: Path) -> Generator[None]:
    """Modules of this test's workshop are forgotten once it is over."""
    with forgotten_modules(tmp_path):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A workshop with secrets, and with a folder that workers write to."""
    return make_folder(tmp_path / "workshop")


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that hostile Python makes as soon as it runs."""
    return tmp_path / "ran"


@pytest.fixture
def runs_begun(place: Place) -> Callable[[], Awaitable[set[str]]]:
    """Lists the runs of this test's own queue: those of other tests come into the server's list in their own time."""

    async def listed() -> set[str]:
        found = place.client.temporal.list_workflows(f"TaskQueue = '{place.queue}'")
        return {one.id async for one in found}

    return listed


def pytest_configure(config: pytest.Config) -> None:
    """Let tests be marked as controls."""
    config.addinivalue_line("markers", f"{_CONTROL}: ordinary use that a defence must leave alone; no hostile input")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of the whole folder that tried too few inputs."""
    held, broken = _counted(session.config)
    if _is_whole(session.config) and not hasattr(session.config, "workerinput") and held + broken < FEWEST_INPUTS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many hostile inputs were tried."""
    held, broken = _counted(terminalreporter.config)
    terminalreporter.write_line(f"hostile inputs: {held + broken} tried, {held} held, {broken} not held")
    if _is_whole(terminalreporter.config) and held + broken < FEWEST_INPUTS:
        terminalreporter.write_line(f"hostile inputs: at least {FEWEST_INPUTS} are wanted", red=True)


def _counted(config: pytest.Config) -> tuple[int, int]:
    """How many hostile inputs were held, and how many were not."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, pytest.TerminalReporter):
        return 0, 0
    passed, failed = (
        len(
            [
                report
                for outcome in outcomes
                for report in reporter.stats.get(outcome, [])
                if str(report.nodeid).startswith("tests/security/") and _CONTROL not in getattr(report, "keywords", ())
            ]
        )
        for outcomes in (("passed",), ("failed", "error"))
    )
    return passed, failed


def _is_whole(config: pytest.Config) -> bool:
    """Whether the folder as a whole was asked for, nothing selected from it."""
    asked = [Path(one).resolve() for one in config.args]
    return asked == [_HERE] and not config.option.keyword and not config.option.markexpr
