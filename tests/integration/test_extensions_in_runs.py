"""Runs with a part of a capability: services without it, or with another version, leave them to those that have it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.extension import GROUP
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.workflows.tools.parts import InvocationPart
from tests.support.extensions.guests import with_guest
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.parked import FILESYSTEM
from tests.support.runs.place import Place

PROMPT = 'write_file {"path": "/a.txt", "content": "hi"}'


@pytest.fixture
def unserved(server: WorkflowEnvironment, tmp_path: Path) -> Place:
    """A workshop that nobody serves yet."""
    place = Place(tmp_path, LlmDoClient(server.client, task_queue=f"test-{uuid4().hex}"), f"test-{uuid4().hex}")
    place.queue = place.client.task_queue
    place.workshop()
    return place


@contextmanager
def service_without(place: Place, log: Path, packages: str = "") -> Generator[None]:
    """Have a service in a process of its own, with what is in a folder of packages, and nothing else for this test."""
    words = [sys.executable, "-m", "tests.support.servers.forked_services", "1", place.queue, str(place.folder)]
    with (
        log.open("w") as errors,
        subprocess.Popen(words, env=place.variables | {"PYTHONPATH": packages}, stderr=errors) as process,
    ):
        try:
            yield
        finally:
            process.kill()


async def said(read: Callable[[], str], *words: str) -> None:
    """Wait until all of the words are in a log."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not all(word in read() for word in words):  # noqa: ASYNC110 - nothing tells when it is written
            await asyncio.sleep(0.1)


async def test_a_service_that_lacks_a_part_leaves_the_run_to_one_that_has_it(
    unserved: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, log = unserved, tmp_path_factory.mktemp("log") / "errors"
    settings = ServiceSettings(task_queue=place.queue)
    place.worker("main", "offline:by-hand", toolsets=FILESYSTEM)
    with with_guest(lambda _invocation, _host: InvocationPart(), version=2):
        async with build_worker(place.client.temporal, place.folder, settings):
            run = await place.start("main", PROMPT)
            await place.pending(run)
        with service_without(place, log):
            await place.signal(run, {"decision": "approve"})
            await said(
                log.read_text, f"run '{run}' was begun with version 2 of the extension 'guest'", "is not installed"
            )
            assert (await place.client.temporal.get_workflow_handle(run).describe()).close_time is None
            async with build_worker(place.client.temporal, place.folder, settings):
                assert "Wrote /a.txt" in (await place.client.result(run)).output
        assert (place.folder / "a.txt").read_text() == "hi"
        await place.replay()


async def test_another_version_of_a_part_does_not_go_on_with_it(
    unserved: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place, settings = unserved, ServiceSettings(task_queue=unserved.queue)
    place.worker("main", "offline:by-hand", toolsets=FILESYSTEM)
    with with_guest(lambda _invocation, _host: None, version=1):
        async with build_worker(place.client.temporal, place.folder, settings):
            run = await place.start("main", PROMPT)
            await place.pending(run)
    with with_guest(lambda _invocation, _host: None, version=2):
        async with build_worker(place.client.temporal, place.folder, settings):
            await place.signal(run, {"decision": "approve"})
            await said(lambda: caplog.text, "version 1 of the extension 'guest', which has version 2")
    with with_guest(lambda _invocation, _host: None, version=1):
        async with build_worker(place.client.temporal, place.folder, settings):
            assert "Wrote /a.txt" in (await place.client.result(run)).output


async def test_the_tool_of_the_page_asks_and_is_carried_out(
    unserved: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, packages = unserved, tmp_path_factory.mktemp("packages")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "extensions.md").read_text()
    for name in ("llm_do_counter", "llm_do_counter_part"):
        (code,) = re.findall(rf"^```python\n# {name}.py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        (packages / f"{name}.py").write_text(code)
    info = packages / "llm_do_counter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-do-counter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ncounter = llm_do_counter:EXTENSION\n")
    place.worker("main", "offline:by-hand")
    with service_without(place, packages / "errors", str(packages)):
        run = await place.start("main", 'count_words {"text": "one two three"}')
        (asked,) = await place.pending(run)
        assert (asked.request.tool, asked.request.capabilities[0].name) == ("count_words", "words.count")
        await place.signal(run, {"decision": "approve"})
        assert "3" in (await place.client.result(run)).output
