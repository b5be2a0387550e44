"""Files that take long to read, on the page: few at once, without its threads, and no longer than somebody waits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from starlette.requests import Request

from llm_do_temporal.pdf.reader import HELPER
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.ui.pages.attachments import (
    PDFS_AT_ONCE,
    _pages,  # pyright: ignore[reportPrivateUsage] - the door itself needs a run
    _while_wanted,  # pyright: ignore[reportPrivateUsage]
)
from tests.support.providers.answers import MAX_WAIT_SECONDS
from tests.support.workshops.forged_pdfs import SLOW

FILES = ["pages in pages", "many pages of many words"]


def at_work() -> int:
    """How many processes have a file: the helper forks one for each. It may end while it is looked at."""
    found = 0
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            found += len(one.children()) if str(HELPER) in one.cmdline() else 0
    return found


async def until_at_work(most: int, least: int) -> None:
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not least <= at_work() <= most:  # noqa: ASYNC110 - nobody tells of processes
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", FILES)
async def test_what_browsers_ask_for_many_times_keeps_no_other_part_of_the_page_waiting(
    name: str, tmp_path: Path
) -> None:
    blobs = LocalBlobStore(blob_folder(tmp_path))
    digest = blobs.put_bytes(SLOW[name]())
    room, left = asyncio.Semaphore(PDFS_AT_ONCE), asyncio.Event()

    async def receive() -> dict[str, str]:
        await left.wait()
        return {"type": "http.disconnect"}

    request = Request({"type": "http"}, receive)
    asked = [asyncio.create_task(_while_wanted(request, _pages(room, lambda: blobs.read(digest)))) for _ in range(40)]
    await until_at_work(PDFS_AT_ONCE, 1)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "a thread"), MAX_WAIT_SECONDS) == "a thread"
    assert at_work() <= PDFS_AT_ONCE
    left.set()
    assert await asyncio.gather(*asked) == [None] * 40
    await until_at_work(0, 0)
