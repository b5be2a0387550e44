"""Runs that are cancelled in the middle of a commit: it goes to its end, for half of it would be worse than none."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from temporalio import activity

from llm_do_temporal.errors import RunCancelled
from llm_do_temporal.extensions.review.commit import Disk
from llm_do_temporal.testing import scripted
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

NOTICED = 3
"""Seconds after which a thread knows that its activity was cancelled: activities beat every second."""


async def test_a_commit_that_has_begun_goes_to_its_end_though_the_run_is_cancelled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    rename = Disk.rename

    def slow(disk: Disk, folder: int, name: str, new_folder: int, new_name: str) -> None:
        rename(disk, folder, name, new_folder, new_name)
        if new_name == "a.txt":
            begun.set()
            cancelled.wait(PATIENCE_SECONDS)
            until = time.monotonic() + NOTICED
            # The thread is told between two instructions, so it must not wait in one.
            while time.monotonic() < until and not activity.is_cancelled():
                threading.Event().wait(0.01)

    monkeypatch.setattr(Disk, "rename", slow)
    main = scripted([write_call("/a.txt"), write_call("/b.txt")], "done")
    place.worker("main", main, toolsets=FILESYSTEM, review="changes")
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run)
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    await place.client.cancel(run)
    cancelled.set()
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    assert (place.folder / "a.txt").exists()
    assert (place.folder / "b.txt").exists()
